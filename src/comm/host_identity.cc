#include "comm/host_identity.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace ffdl::comm {
namespace {

constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";
constexpr const char* kSharedMemory = "/dev/shm";
constexpr const char* kNetwork = "/proc/self/ns/net";
constexpr const char* kProcesses = "/proc/self/ns/pid";

// A mounted file system, or a namespace, has a device and inode that no other has in this boot.
Result<std::string> identity_of(const char* path) {
  struct stat found = {};
  if (stat(path, &found) == 0) return fmt::format("{}:{}", found.st_dev, found.st_ino);
  return base::make_error(StatusCode::kUnavailable, "tell which host this is: '{}': {}", path,
                          base::errno_text(errno));
}

}  // namespace

Result<HostIdentity> host_identity() {
  std::string boot;
  if (!std::getline(std::ifstream(kBootId), boot)) {
    return base::make_error(StatusCode::kUnavailable,
                            "tell which host this is: '{}' cannot be read; is /proc mounted",
                            kBootId);
  }
  FFDL_ASSIGN_OR_RETURN(const std::string memory, identity_of(kSharedMemory));
  FFDL_ASSIGN_OR_RETURN(const std::string network, identity_of(kNetwork));
  FFDL_ASSIGN_OR_RETURN(std::string processes, identity_of(kProcesses));
  // The kernel keeps others out of such a process.
  if (prctl(PR_GET_DUMPABLE) != 1) processes += fmt::format("/{}", getpid());
  return HostIdentity{.memory = fmt::format("{}/{}/{}", boot, memory, geteuid()),
                      .network = fmt::format("{}/{}", boot, network),
                      .processes = fmt::format("{}/{}", boot, processes)};
}

}  // namespace ffdl::comm
