#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ffdl/types.h"

namespace ffdl::ps {

// What belongs to the gradient that a learner is collecting and has not yet published: which
// samples, from which weights, how scaled.
class PendingGradient {
 public:
  explicit PendingGradient(uint32_t ranges_max) : ranges_max_(ranges_max) {}

  bool empty() const { return mini_batches == 0 && skipped == 0; }
  // Whether the samples can still be named; neighbouring ranges become one.
  bool has_room_for(std::span<const SampleRange> named) const;
  // Only with room. `version` is that of the weights that the mini-batch was computed from.
  void add(std::span<const SampleRange> named, uint64_t version, bool skip);
  void clear() { *this = PendingGradient(ranges_max_); }

  uint32_t mini_batches = 0;
  uint32_t skipped = 0;
  uint64_t samples = 0;
  uint64_t base_version = 0;
  float clip_scale = 1;  // still to be applied to what is in the buffer
  std::vector<SampleRange> ranges;

 private:
  uint32_t ranges_max_;
};

}  // namespace ffdl::ps
