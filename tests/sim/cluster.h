#pragma once

#include <cstdint>
#include <string>

#include "sim/mutants.h"
#include "sim/sim_runtime.h"

namespace ffdl::sim {

// What runs above the real Membership: a session made for the test, which also publishes
// checkpoints; or the real Session. Or without it: StoreLedgers (ledger_cluster.h).
enum class Of { kMembership, kSession, kLedger };

struct Outcome {
  std::string violation;  // empty: none
  uint64_t schedule_hash = 0;
  uint64_t switches = 0;
  uint64_t stable_steps = 0;
  uint64_t generations = 0;
  uint64_t lineages = 0;
  uint64_t checkpoints = 0;
};

// Workers train for some seconds of made-up time while a seeded adversary kills, stops and cuts
// them off; then it leaves them alone, and all who live must come together again. With `epochs`, of
// sessions and ledgers, they train so many instead, and each must have each sample once.
Outcome simulate(uint64_t seed, Mutant mutant, Stacks& stacks, Of of = Of::kMembership,
                 uint64_t epochs = 0);

}  // namespace ffdl::sim
