#pragma once

#include "ffdl/store.h"
#include "ffdl/types.h"

// Reports to the other members of a world that one of them failed to connect.
namespace ffdl::comm {

// A record in the store, written by the first member that fails for a reason of its own. The others
// read it while they connect, so none of them waits for that member until its deadline.
// Threads: one at a time.
// Owns: nothing; the store must live until close().
class FailureNotice {
 public:
  // The record lives at most until `deadline`, which is that of connecting.
  FailureNotice(const World& world, Store& store, Time deadline);

  // Reads the record if the last reading is long enough ago. Never reads it after close().
  // Errors: kPeerLost (another member has failed; names it and the cause).
  Status check();
  // Ends the reading. Writes the record if `connected` is an error that only this member knows: not
  // a deadline, another member's failure, a newer world or an abort.
  void close(const Status& connected);

 private:
  const World world_;
  Store* store_;  // null after close()
  const Time deadline_;
  Time next_check_;
};

}  // namespace ffdl::comm
