#pragma once

#include "ffdl/communicator.h"

namespace ffdl::comm {

// A communicator through the memory of hosts, which can also be asked about its members while none
// of its operations runs: for one that waits for something else that they do.
class WatchedCommunicator : public Communicator {
 public:
  // No member is known to have failed, left or died, as of now; what is not known is no loss.
  // Threads: that which runs operations. Does not wait. Errors: kPeerLost, kCancelled (aborted).
  virtual Status look_for_losses() = 0;
};

}  // namespace ffdl::comm
