#pragma once

#include "ffdl/comm/communicator.h"

namespace ffdl::comm {

// A communicator through the memory of hosts that can check its members while none of its
// operations runs. Callers use it while they wait for other work of those members.
class WatchedCommunicator : public Communicator {
 public:
  // Returns OK if no member is known to have failed, left or died so far. An unknown state is no
  // loss.
  // Threads: the thread that runs operations. Does not wait.
  // Errors: kPeerLost, kCancelled (aborted).
  virtual Status look_for_losses() = 0;
};

}  // namespace ffdl::comm
