#pragma once

#include <sched.h>
#include <sys/mount.h>

namespace ffdl::testing {

// The exit code of a child that may not mount.
inline constexpr int kNotAllowed = 77;

// Mounts an empty /dev/shm with these options for this process, a child of the test. Returns false
// if that is not allowed: it needs root and a mount namespace.
inline bool mount_private_shm(const char* options) {
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", "/dev/shm", "tmpfs", 0, options) == 0;
}

}  // namespace ffdl::testing
