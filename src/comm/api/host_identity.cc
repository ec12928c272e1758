#include "comm/api/host_identity.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "base/resource_limit.h"

namespace ffdl::comm {
namespace {

constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";
constexpr const char* kSharedMemory = "/dev/shm";
constexpr const char* kNetwork = "/proc/self/ns/net";
constexpr const char* kProcesses = "/proc/self/ns/pid";
constexpr const char* kUsers = "/proc/self/ns/user";

// Returns device and inode of a mounted file system or a namespace. They are unique in one boot.
Result<std::string> identity_of(const char* path) {
  struct stat found = {};
  if (stat(path, &found) == 0) return fmt::format("{}:{}", found.st_dev, found.st_ino);
  return base::system_failure(fmt::format("identify this host: '{}'", path), errno,
                              "is /proc mounted");
}

}  // namespace

Result<HostIdentity> host_identity() {
  std::string boot;
  errno = 0;
  if (!std::getline(std::ifstream(kBootId), boot)) {
    return base::system_failure(fmt::format("identify this host: read '{}'", kBootId), errno,
                                "is /proc mounted");
  }
  FFDL_ASSIGN_OR_RETURN(const std::string memory, identity_of(kSharedMemory));
  FFDL_ASSIGN_OR_RETURN(const std::string network, identity_of(kNetwork));
  FFDL_ASSIGN_OR_RETURN(std::string processes, identity_of(kProcesses));
  // A kernel may have no user namespaces. Then all processes are in the same one.
  if (const Result<std::string> users = identity_of(kUsers); users.ok()) processes += "/" + *users;
  // The kernel denies other processes access to a process that is not dumpable.
  if (prctl(PR_GET_DUMPABLE) != 1) processes += fmt::format("/{}", getpid());
  return HostIdentity{.memory = fmt::format("{}/{}/{}", boot, memory, geteuid()),
                      .network = fmt::format("{}/{}", boot, network),
                      .processes = fmt::format("{}/{}", boot, processes)};
}

}  // namespace ffdl::comm
