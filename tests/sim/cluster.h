#pragma once

#include <cstdint>
#include <string>

#include "sim/mutants.h"
#include "sim/sim_runtime.h"

namespace ffdl::sim {

// The code above the real Membership: a session made for the test, which also publishes
// checkpoints, or the real Session. Without Membership: ledgers in a store (ledger_cluster.h).
enum class Of { kMembership, kSession, kLedger };

struct Schedule {
  uint64_t seed = 0;
  Mutant mutant = Mutant::kNone;
  Of of = Of::kMembership;
  uint64_t epochs = 0;  // for sessions and ledgers; 0: some seconds
  // Gives sessions all of these for any seed: links that are cut and return, a disk, consistent
  // recovery and an end.
  bool has_all_trouble = false;
};

struct Outcome {
  std::string violation;  // empty: none
  uint64_t schedule_hash = 0;
  uint64_t switches = 0;
  uint64_t stable_steps = 0;
  uint64_t generations = 0;
  uint64_t lineages = 0;
  uint64_t checkpoints = 0;
  // The longest stall of the job and that of a healthy member, see LinkTrouble. 0 unless links are
  // the only trouble.
  Duration longest_stall{};
  Duration longest_member_stall{};
};

// Trains for some seconds of made-up time while a seeded adversary kills, stops and cuts workers
// off. Then it leaves them alone, and all living ones must join one world again. With `epochs` they
// train so many instead, and each epoch must have each sample once.
Outcome simulate(const Schedule& schedule, Stacks& stacks);

}  // namespace ffdl::sim
