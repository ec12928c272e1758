#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ffdl/types.h"
#include "ps/segment/gradient_buffer.h"
#include "ps/segment/touched_ranges.h"

namespace ffdl::ps {

// The gradient of one mini-batch that is to be stored in a slot.
struct IncomingGradient {
  std::span<const float> values;         // for the ranges, one range after the other
  std::span<const TouchedRange> ranges;  // for a dense gradient: one range of all parameters
  float scale = 1;                       // factor of the values
  bool in_slot = false;                  // the values are already in their place
};

// A learner's unpublished gradient, in the learner's own buffer, and the data that belongs to it.
class PendingGradient {
 public:
  explicit PendingGradient(uint32_t ranges_max) : ranges_max_(ranges_max) {}

  bool empty() const { return mini_batches == 0 && skipped == 0; }
  // Returns true if the samples still fit the record. Neighbouring ranges become one.
  bool has_room_for(std::span<const SampleRange> named) const;
  // Returns the ranges that are touched once `more` is stored.
  std::vector<TouchedRange> touched_with(std::span<const TouchedRange> more) const;

  // Overwrites the own buffer or adds to it. add() must follow.
  void store(const GradientBuffer& own, const IncomingGradient& incoming);
  // Requires has_room_for(). `version` is that of the weights from which the mini-batch was
  // computed.
  void add(std::span<const SampleRange> named, uint64_t version, bool skip);
  void clear() { *this = PendingGradient(ranges_max_); }

  uint32_t mini_batches = 0;
  uint32_t skipped = 0;
  uint64_t samples = 0;
  uint64_t base_version = 0;
  float clip_scale = 1;  // still to be applied to the buffer
  double largest = 0;    // bound on the magnitudes in the buffer, for kFloat16
  std::vector<SampleRange> ranges;
  std::vector<TouchedRange> touched;

 private:
  void merge(const GradientBuffer& own, const IncomingGradient& incoming);

  uint32_t ranges_max_;
};

}  // namespace ffdl::ps
