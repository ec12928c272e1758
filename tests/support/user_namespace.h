#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <string>

namespace ffdl::testing {

// Puts this process, a child of the test, into a user namespace of its own, in which it has the
// same user id as outside. Returns false if that is not allowed.
inline bool enter_user_namespace() {
  const uid_t user = geteuid();
  if (unshare(CLONE_NEWUSER) != 0) return false;
  const std::string map = fmt::format("{} {} 1", user, user);
  const int file = ::open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
  const bool is_mapped = file >= 0 && ::write(file, map.data(), map.size()) > 0;
  if (file >= 0) ::close(file);
  return is_mapped;
}

}  // namespace ffdl::testing
