#pragma once

#include <cstdint>

#include "sim/cluster.h"

namespace ffdl::sim {

// Workers with a StoreLedger each train so many epochs of a small data set, while a seeded
// adversary kills, stops and cuts them off, ends their leases, and begins the job anew.
Outcome simulate_ledger(uint64_t seed, uint64_t epochs, Stacks& stacks);

}  // namespace ffdl::sim
