#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ffdl/types.h"

namespace ffdl::data {

// What is read at once, and what is known of it.
struct PlannedBlock {
  SampleRange range{};
  int known = -1;  // its place among those that there are already; -1: a new one

  bool operator==(const PlannedBlock&) const = default;
};

struct ReadRules {
  uint64_t block_samples = 1;  // of a new block; a piece up to twice as long is not cut
  uint64_t ahead_samples = 0;  // beyond what this step uses, at most
};

// Which blocks the samples of `leases` lie in, in their order: blocks that there are (no two of
// which have a sample in common) and new ones where there are none. The first `now` samples are all
// covered, what follows as far as the rules allow. Pure.
std::vector<PlannedBlock> plan_reads(std::span<const SampleRange> leases, uint64_t now,
                                     std::span<const SampleRange> known, const ReadRules& rules);

}  // namespace ffdl::data
