#pragma once

#include <string>

#include "base/errors.h"

// Which processes can do what with each other, as texts to be compared.
namespace ffdl::comm {

struct HostIdentity {
  // Equal where one can open the shared memory that the other makes: the same boot of a kernel, the
  // same /dev/shm and the same user.
  std::string memory;
  // Equal where one can reach what the other listens at on the loopback interface.
  std::string network;
  // Equal where one can name the other by its process id, and so open what it has open.
  std::string processes;
};

// Of this process. Errors: kUnavailable (no /proc or /dev/shm).
Result<HostIdentity> host_identity();

}  // namespace ffdl::comm
