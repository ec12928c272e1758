#pragma once

#include "ffdl/status.h"

// FFDL_CHECK(condition, "why it must hold") is always on. It is for the library's own invariants
// only. A broken one ends the process, and the other members rescale. A user's mistake is a Status,
// never a check.
#define FFDL_CHECK(condition, why)                                              \
  (static_cast<bool>(condition) ? static_cast<void>(0)                          \
                                : ::ffdl::base::check_failed(#condition, (why), __FILE__, __LINE__))

namespace ffdl::base {

[[noreturn]] void check_failed(const char* condition, const char* why, const char* file, int line);

}  // namespace ffdl::base
