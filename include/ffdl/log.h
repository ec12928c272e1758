#pragma once

#include <functional>
#include <string_view>

#include "ffdl/export.h"

namespace ffdl {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Receives one line without its newline. The thread that logs calls the sink, one call at a time.
// The sink must not call ffdl.
using LogSink = std::function<void(LogLevel, std::string_view line)>;

// Sends log lines to `sink` instead of standard error; an empty function restores standard error.
// This is the only process-wide setting of ffdl. The environment variable FFDL_LOG sets the lowest
// level that is logged (debug, info, warning, error; default warning).
FFDL_API void set_log_sink(LogSink sink);

}  // namespace ffdl
