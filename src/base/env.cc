#include "base/env.h"

#include <cstdlib>
#include <string_view>

namespace ffdl::base {
namespace {

LogLevel read_log_level() {
  const char* text = std::getenv("FFDL_LOG");
  const std::string_view level = text ? text : "";
  if (level == "debug") return LogLevel::kDebug;
  if (level == "info") return LogLevel::kInfo;
  if (level == "error") return LogLevel::kError;
  return LogLevel::kWarning;
}

}  // namespace

const Environment& environment() {
  static const Environment read_once{.log_level = read_log_level()};
  return read_once;
}

}  // namespace ffdl::base
