#pragma once

#include <cstdint>

#include "base/fork_private_fd.h"
#include "ffdl/status.h"

// Proof of life and death by kernel-held file locks: one byte of the segment's file per role. The
// kernel drops a process's lock when its last thread is gone, whatever killed it, and shows it
// across pid namespaces; a stopped process keeps it. A heartbeat can do neither.
namespace ffdl::shm {

// Which byte: the server's, or that of learner `slot`.
inline constexpr int kOwnerRole = 0;
constexpr int learner_role(int slot) { return 1 + slot; }
inline constexpr int kRolesMax = 1024;  // bytes that kAnyRole looks at
// That of a partition of the data set: who works on it. Who holds one holds another role as well,
// so that kAnyRole need not look at it.
constexpr int64_t partition_role(uint32_t partition) { return kRolesMax + int64_t{partition}; }

// Any role at all, or all of them.
inline constexpr int kAnyRole = -1;

// A held lock. Threads of one process may hold different roles: each RoleLock has an open file
// description of its own. Not inherited by fork().
class RoleLock {
 public:
  RoleLock() = default;
  // Tries once. `fd` is any descriptor of the segment's file.
  // Errors: kConflict (somebody alive holds the role).
  // With kAnyRole: all roles at once, so that nobody takes one meanwhile.
  static Result<RoleLock> acquire(int fd, int64_t role);

  // One more role, with no descriptor of its own: at the end of its holder the kernel drops all of
  // them at once. Tries once; true for one that this lock has already. False: somebody alive holds
  // it. Errors: kUnavailable.
  Result<bool> add(int64_t role);
  void drop(int64_t role);

  bool held() const { return fd_.valid(); }
  void release() { fd_.close(); }

 private:
  base::ForkPrivateFd fd_;
};

// Whether somebody alive holds the role. A lock held through `fd` itself is not seen; a RoleLock
// never is such a lock.
bool role_is_held(int fd, int64_t role);

// The number of this process's pid namespace, so that a pid is only believed where it means
// something, and when a process started (clock ticks since boot; 0 when it is gone).
uint64_t pid_namespace();
uint64_t process_start_time(int64_t pid);

}  // namespace ffdl::shm
