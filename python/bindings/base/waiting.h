#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <chrono>

#include "bindings/base/status.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

// Waiting calls under Python: other threads run meanwhile, and Ctrl-C ends the call.
namespace ffdl::python {

inline const Status& status_of(const Status& status) { return status; }
template <class T>
const Status& status_of(const Result<T>& result) {
  return result.status();
}

// Returns the time `timeout_s` from now. Infinity is allowed and means to wait without a bound.
Time deadline_after(double timeout_s);

// The time-out of a call whose caller gives none.
inline constexpr double kDefaultTimeoutS = 30.0;

// The time between two checks for signals.
inline constexpr Duration kPiece = std::chrono::milliseconds(100);

struct Waiting {
  bool starts_again = false;  // the call restarts from its beginning, so each piece is twice as
                              // long
  bool for_a_place = false;   // kExhausted and kConflict, too, mean that the wait was in vain
};

// Calls `call(deadline)` without the interpreter lock. Uses nearer deadlines than the caller's, and
// checks for signals in between.
template <class Call>
auto wait(double timeout_s, Call&& call, Waiting waiting = {}) {
  const Time deadline = deadline_after(timeout_s);
  for (Duration piece = kPiece;; piece *= waiting.starts_again ? 2 : 1) {
    const Time piece_end = std::min(deadline, deadline_in(piece));
    auto outcome = [&] {
      pybind11::gil_scoped_release others_may_run;
      return call(piece_end);
    }();
    if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
    const StatusCode code = status_of(outcome).code();
    const bool in_vain =
        code == StatusCode::kTimeout ||
        (waiting.for_a_place && (code == StatusCode::kExhausted || code == StatusCode::kConflict));
    if (!in_vain || piece_end == deadline) return outcome;
  }
}

// Runs a call that takes no deadline, because something else bounds it, without the interpreter
// lock.
template <class Call>
auto without_lock(Call&& call) {
  pybind11::gil_scoped_release others_may_run;
  return call();
}

// Held while a call uses an object that belongs to one thread at a time. A second thread gets an
// exception instead of undefined behaviour.
class Exclusive {
 public:
  explicit Exclusive(bool& busy);
  ~Exclusive() { busy_ = false; }
  Exclusive(const Exclusive&) = delete;
  Exclusive& operator=(const Exclusive&) = delete;

 private:
  bool& busy_;
};

}  // namespace ffdl::python
