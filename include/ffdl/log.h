#pragma once

#include <functional>
#include <string_view>

#include "ffdl/export.h"

namespace ffdl {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Receives one line without its end. Called by whichever thread logs, one call at a time; it must
// not call ffdl.
using LogSink = std::function<void(LogLevel, std::string_view line)>;

// Sends log lines to `sink` instead of standard error; an empty function restores standard error.
// This is the only setting of ffdl that belongs to the process. Lines below the level of the
// environment variable FFDL_LOG (debug, info, warning, error; default warning) are not made.
FFDL_API void set_log_sink(LogSink sink);

}  // namespace ffdl
