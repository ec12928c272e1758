#pragma once

#include <optional>
#include <string>
#include <vector>

#include "membership/sightings.h"

namespace ffdl::membership {

struct WorldDecision {
  std::optional<WorldRecord> next;  // to be written; none: nothing to change
  std::vector<Member> waiting_for;  // carriers without whom no world may be formed
  Time again = kNoDeadline;         // when the answer may be another though nothing happened
  std::string reason;
};

// Which world the leader should form from these facts. Safety is in three rules: the next world has
// a carrier in it; carriers change only when a world is active; without a carrier the job begins
// anew only when each of them is dead for certain, or must have dropped its state. The rest (when,
// how many, in which order) is taste.
// `record` is none before the first world. Term and leader of `next` are the record's.
WorldDecision decide_world(const std::optional<WorldRecord>& record, const Facts& facts, Time now,
                           const MembershipOptions& options);

}  // namespace ffdl::membership
