#pragma once

#include <string>
#include <utility>

#include "ffdl/status.h"

// Conversion of a Status to an exception of ffdl.errors. The interpreter lock must be held.
namespace ffdl::python {

[[noreturn]] void raise(const Status& status);
// Raises JobDone with the message of `status`.
[[noreturn]] void raise_job_done(const Status& status);
[[noreturn]] void raise_invalid_argument(std::string message);

inline void check(const Status& status) {
  if (!status.ok()) raise(status);
}

template <class T>
T take(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return std::move(result).value();
}

}  // namespace ffdl::python
