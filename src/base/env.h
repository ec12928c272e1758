#pragma once

#include "ffdl/log.h"

// Every environment variable that ffdl reads, and nowhere else is one read.
namespace ffdl::base {

struct Environment {
  LogLevel log_level = LogLevel::kWarning;  // FFDL_LOG: debug, info, warning, error
};

// Read once, at the first call.
const Environment& environment();

}  // namespace ffdl::base
