#pragma once

#include <string_view>

#include "ffdl/export.h"
#include "ffdl/status.h"

// Explain failed system calls by the resource that is used up. The command calls them too, so the
// shared library exports them.
namespace ffdl::base {

// Names the limit behind an errno value and how to raise it, e.g. "raise the limit of open files
// ('ulimit -n'), or close some". Empty for an error that names no limit.
FFDL_API std::string_view what_to_raise(int error);

// Finds the errno value that names a limit and whose text is part of another library's message. 0:
// none.
int limit_named_in(std::string_view message);

// Returns kExhausted if `error` names a limit: "<doing>: <text of error>; <what to raise>". Adds
// the present value of a limit of the size of files. Returns `otherwise` in other cases: "<doing>:
// <text of error>; <advice>".
FFDL_API Status system_failure(std::string_view doing, int error, std::string_view advice,
                               StatusCode otherwise = StatusCode::kUnavailable);

}  // namespace ffdl::base
