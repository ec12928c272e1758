#pragma once

#include <string>

#include "base/errors.h"

// Identifies what processes can share with each other, as texts that are compared.
namespace ffdl::comm {

struct HostIdentity {
  // Equal where one process can open the shared memory that the other creates: the same boot of a
  // kernel, the same /dev/shm and the same user. In different user namespaces the same user id may
  // mean different users, so there only a trial shows it (share_trial.h).
  std::string memory;
  // Equal where one process can reach the other's listening ports on the loopback interface.
  std::string network;
  // Equal where one process can name the other by its process id and the kernel lets it open the
  // other's descriptors: the same pid namespace and the same user namespace.
  std::string processes;
};

// Returns the identity of this process. Errors: kUnavailable (no /proc or /dev/shm).
Result<HostIdentity> host_identity();

}  // namespace ffdl::comm
