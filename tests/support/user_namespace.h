#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <string>

namespace ffdl::testing {

// Puts this process, a child of the test, into a user namespace of its own, in which its user id is
// `inside`. Returns false if that is not allowed.
inline bool enter_user_namespace(uid_t inside) {
  const std::string map = fmt::format("{} {} 1", inside, geteuid());
  if (unshare(CLONE_NEWUSER) != 0) return false;
  prctl(PR_SET_DUMPABLE, 1);  // lets a process that has changed its user write the map
  const int file = ::open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
  const bool is_mapped = file >= 0 && ::write(file, map.data(), map.size()) > 0;
  if (file >= 0) ::close(file);
  return is_mapped && geteuid() == inside;
}

}  // namespace ffdl::testing
