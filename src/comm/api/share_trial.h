#pragma once

#include <vector>

#include "comm/api/introduction.h"

// Finds out by a trial which members can open each other's shared memory.
namespace ffdl::comm {

struct ShareTrial {
  std::vector<Introduction> members;  // as given, except that members that share nothing are apart
  std::vector<LeaseId> leases;        // of this rank's records; ended once all have connected
};

// Returns the members in the form in which they can connect. There is a trial if processes of one
// host are in different namespaces, because then only the kernel knows whether they can share
// memory. The first rank of each such host creates a segment, and its other ranks open it. If one
// of them cannot, each rank of that host counts as a host, and rank 0 of the world logs the cause.
// All members get the same result.
// Blocks: until all members have taken part, or the deadline. Without a trial it does not block.
// Errors: those of exchange_records().
Result<ShareTrial> try_shared_memory(const World& world, Store& store, Time deadline,
                                     std::vector<Introduction> members);

}  // namespace ffdl::comm
