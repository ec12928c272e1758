#pragma once

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/process.h"
#include "ffdl/status.h"

namespace ffdl::base {

// Watches the launcher that started this process, such as `ffdl run`. The kernel kills a worker
// with its launcher, but not a program that a shell around the worker has started. Without a
// launcher nothing stops such a program, and it keeps the job's name and store in use.
// Every object that waits for other processes checks the watch while it waits, and when it is
// called. A check that does not ask the kernel costs a few nanoseconds.
// Threads: all methods from any thread. A fork may use it too, and then opens no lasting
// descriptor.
class LauncherWatch {
 public:
  // Reads the launcher from FFDL_LAUNCHER among these variables (launch/child.cc). Without it, or
  // if the launcher cannot be watched from this process, has_ended() always returns false.
  explicit LauncherWatch(const std::map<std::string, std::string>& variables);

  // Returns whether FFDL_LAUNCHER is set.
  bool has_launcher() const { return !mark_.empty(); }
  // Asks the kernel at most once per kLauncherInterval, and not again after the launcher's end.
  bool has_ended() const;
  // Asks the kernel in every call. For callers that have found another process's end: the end of
  // the launcher may be its cause, and is then the better reason.
  bool has_ended_now() const;
  // Format the name of the caller's object only after the launcher's end.
  // Errors: kCancelled (the launcher has ended).
  template <class... Args>
  Status check(fmt::format_string<Args...> object, Args&&... args) const {
    if (!has_ended()) return {};
    return ended(fmt::format(object, std::forward<Args>(args)...));
  }
  template <class... Args>
  Status check_now(fmt::format_string<Args...> object, Args&&... args) const {
    if (!has_ended_now()) return {};
    return ended(fmt::format(object, std::forward<Args>(args)...));
  }

 private:
  bool ask() const;
  Status ended(const std::string& object) const;

  std::string mark_;                      // of the launcher; empty: there is none
  std::optional<ProcessWatch> launcher_;  // none: no descriptor was left, or see ask()
  // Relaxed: no other memory depends on either.
  mutable std::atomic<int64_t> next_{0};  // the time of the next question to the kernel
  mutable std::atomic<bool> has_ended_{false};
};

// Returns the watch of this process's launcher. All objects of the process share it, and so one
// descriptor. Like the environment it is a fact of the process, and is never destroyed: threads
// may still wait while the process exits.
const LauncherWatch& launcher_watch();

}  // namespace ffdl::base
