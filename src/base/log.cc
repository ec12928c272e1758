#include "base/log.h"

#include <cstdio>
#include <string>

#include "base/env.h"
#include "base/held_signal.h"
#include "base/mutex.h"
#include "base/printable.h"

namespace ffdl {
namespace {

struct SinkHolder {
  base::Mutex mutex;
  LogSink sink FFDL_GUARDED_BY(mutex);
};

SinkHolder& holder() {
  static SinkHolder the_one_process_wide_setting;
  return the_one_process_wide_setting;
}

constexpr std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "?";
}

}  // namespace

void set_log_sink(LogSink sink) {
  base::MutexLock lock(holder().mutex);
  holder().sink = std::move(sink);
}

namespace base {

bool log_enabled(LogLevel level) { return level >= environment().log_level; }

void log_line(LogLevel level, std::string_view line) {
  const std::string shown = printable(line);
  MutexLock lock(holder().mutex);
  if (holder().sink) {
    holder().sink(level, shown);
    return;
  }
  const std::string text = fmt::format("ffdl {}: {}\n", level_name(level), shown);
  const HeldSignal file_size_signal(SIGXFSZ);  // standard error may be a file
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace base
}  // namespace ffdl
