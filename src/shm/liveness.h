#pragma once

#include <cstdint>

#include "base/fork_private_fd.h"
#include "ffdl/status.h"

// Detects life and death by file locks of the kernel: one byte of the segment's file per role. The
// kernel drops a process's lock when its last thread is gone, whatever killed it. The lock is
// visible across pid namespaces, and a stopped process keeps it. A heartbeat has neither property.
namespace ffdl::shm {

// Roles: the server's, and those of learners by slot.
inline constexpr int kOwnerRole = 0;
constexpr int learner_role(int slot) { return 1 + slot; }
inline constexpr int kRolesMax = 1024;  // bytes that kAnyRole covers
// The role of working on a partition of the data set. Its holder has another role as well, so
// kAnyRole need not cover it.
constexpr int64_t partition_role(uint32_t partition) { return kRolesMax + int64_t{partition}; }

// Any of the roles, or all of them.
inline constexpr int kAnyRole = -1;

// A held lock. Threads of one process may hold different roles, since each RoleLock has its own
// open file description. It is not inherited by fork().
class RoleLock {
 public:
  RoleLock() = default;
  // Tries once. `fd` is any descriptor of the segment's file. kAnyRole takes all roles at once, so
  // that no process can take one meanwhile.
  // Errors: kConflict (a live process holds the role).
  static Result<RoleLock> acquire(int fd, int64_t role);

  // Adds a role without another descriptor. When its holder ends, the kernel drops all of its roles
  // at once. Tries once. Returns true also for a role that this lock already has, and false if a
  // live process holds it. Errors: kUnavailable.
  Result<bool> add(int64_t role);
  void drop(int64_t role);

  bool held() const { return fd_.valid(); }
  void release() { fd_.close(); }

 private:
  base::ForkPrivateFd fd_;
};

// Returns true if a live process holds the role. A lock held through `fd` itself is not seen; a
// RoleLock never uses `fd` itself.
bool role_is_held(int fd, int64_t role);

}  // namespace ffdl::shm
