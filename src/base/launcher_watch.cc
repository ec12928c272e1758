#include "base/launcher_watch.h"

#include "base/errors.h"

namespace ffdl::base {

LauncherWatch::LauncherWatch(const std::map<std::string, std::string>& variables) {
  const auto mark = variables.find("FFDL_LAUNCHER");
  if (mark != variables.end()) launcher_ = ProcessWatch::of(mark->second);
}

Status LauncherWatch::check(std::string_view member) const {
  if (!launcher_ || !launcher_->is_gone()) return {};
  return make_error(StatusCode::kCancelled,
                    "member '{}': its launcher, 'ffdl run' with process id {}, has ended, but this "
                    "member still runs; end this member, and run the job again",
                    member, launcher_->process());
}

}  // namespace ffdl::base
