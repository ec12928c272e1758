#pragma once

#include <cstdint>

#include "sim/cluster.h"

namespace ffdl::sim {

// Trains workers, that share a ledger in a store, for `epochs` epochs of a small data set. A seeded
// adversary kills, stops and cuts them off, ends their leases, and begins the job again.
Outcome simulate_ledger(uint64_t seed, uint64_t epochs, Stacks& stacks);

}  // namespace ffdl::sim
