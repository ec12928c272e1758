#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <utility>

#include "ffdl/status.h"

namespace ffdl::python {

// Carries an exception through ffdl, which has none: from the Python code that raised it to the
// call that Python made. Threads: one at a time.
class Raised {
 public:
  // Runs `call()` with the interpreter lock. Keeps the first exception; after that no further
  // `call` runs.
  template <class Call>
  void in(Call&& call) {
    if (seen_) return;
    const pybind11::gil_scoped_acquire interpreter;
    try {
      call();
    } catch (pybind11::error_already_set& error) {
      seen_ = true;
      error_.emplace(std::move(error));
    }
  }

  Status status() const {
    if (!seen_) return {};
    return {StatusCode::kCancelled,
            "train: a callback, or the handler of a signal, raised an exception, which ended the "
            "session; open another"};
  }

  // Rethrows the exception that was kept, if any. The interpreter lock is held.
  void rethrow() {
    if (!error_) return;
    pybind11::error_already_set error = *std::exchange(error_, std::nullopt);
    throw error;
  }

 private:
  bool seen_ = false;
  std::optional<pybind11::error_already_set> error_;
};

}  // namespace ffdl::python
