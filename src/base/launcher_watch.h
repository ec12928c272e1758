#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/process.h"
#include "ffdl/status.h"

namespace ffdl::base {

// Watches the launcher that started this process, such as `ffdl run`. The kernel kills a worker
// with its launcher, but not a program that a shell around the worker has started. Without a
// launcher nothing stops such a program, and it keeps the job's name and store in use.
// Threads: all methods from any thread.
class LauncherWatch {
 public:
  // Reads the launcher from FFDL_LAUNCHER among these variables (launch/child.cc). Without it, or
  // if the launcher cannot be watched from this process, check() always returns OK.
  explicit LauncherWatch(const std::map<std::string, std::string>& variables);

  // Errors: kCancelled (the launcher has ended).
  Status check(std::string_view member) const;

 private:
  std::optional<ProcessWatch> launcher_;
};

}  // namespace ffdl::base
