#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ffdl/types.h"

namespace ffdl::data {

// A range to read at once.
struct PlannedBlock {
  SampleRange range{};
  int known = -1;  // index among the existing blocks; -1: a new block

  bool operator==(const PlannedBlock&) const = default;
};

struct ReadRules {
  uint64_t block_samples = 1;  // in a new block; up to twice as many are not cut
  uint64_t ahead_samples = 0;  // limit beyond the samples of this step
};

// Returns the blocks of the samples of `leases`, in their order. These are existing blocks, of
// which no two share a sample, and new ones for the gaps. They cover all of the first `now`
// samples, and of the next ones as many as the rules allow. Pure.
std::vector<PlannedBlock> plan_reads(std::span<const SampleRange> leases, uint64_t now,
                                     std::span<const SampleRange> known, const ReadRules& rules);

}  // namespace ffdl::data
