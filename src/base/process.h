#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/fork_private_fd.h"

// Identifies and watches other processes of this host.
namespace ffdl::base {

// Returns a mark of this process for ProcessWatch in another one: "PID:START:NAMESPACES-BOOT".
// Empty: /proc does not provide it.
std::string mark_of_this_process();

// Watches one process until its end. A later process with the same number is not mistaken for it.
// Threads: all methods from any thread.
class ProcessWatch {
 public:
  // Takes the result of mark_of_this_process() in the watched process. Returns nullopt if it cannot
  // be watched, for example from another host, or another pid or time namespace.
  static std::optional<ProcessWatch> of(std::string_view mark);

  pid_t process() const { return process_; }
  // Always false in a fork, where the object was copied.
  bool is_gone() const;
  // Returns false in a fork, except if the process had ended before.
  bool can_tell() const { return had_ended_ || end_.valid(); }

 private:
  explicit ProcessWatch(pid_t process) : process_(process), had_ended_(true) {}
  ProcessWatch(pid_t process, ForkPrivateFd end) : process_(process), end_(std::move(end)) {}

  pid_t process_;
  ForkPrivateFd end_;  // readable once the process has ended; none if it had ended before
  bool had_ended_ = false;
};

// Returns true if the process with this mark has ended for certain. False: it runs, or it cannot be
// watched.
bool has_process_ended(std::string_view mark);

// Returns the process that has locked the open file by flock(2). 0: the kernel does not report it.
pid_t lock_holder(int fd);
// Returns "process 123", or "another process" if lock_holder() returns 0.
std::string describe_lock_holder(int fd);

}  // namespace ffdl::base
