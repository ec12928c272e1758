#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ffdl/types.h"
#include "ps/gradient_buffer.h"
#include "ps/touched.h"

namespace ffdl::ps {

// The gradient of one mini-batch on its way into a slot.
struct IncomingGradient {
  std::span<const float> values;         // of the ranges, one after the other
  std::span<const TouchedRange> ranges;  // of a dense gradient: one, of all parameters
  float scale = 1;                       // of the values
  bool in_slot = false;                  // the values are where they belong already
};

// What a learner is collecting and has not yet published: the gradient in its own buffer, and what
// belongs to it.
class PendingGradient {
 public:
  explicit PendingGradient(uint32_t ranges_max) : ranges_max_(ranges_max) {}

  bool empty() const { return mini_batches == 0 && skipped == 0; }
  // Whether the samples can still be named; neighbouring ranges become one.
  bool has_room_for(std::span<const SampleRange> named) const;
  // What will be touched once `more` is stored.
  std::vector<TouchedRange> touched_with(std::span<const TouchedRange> more) const;

  // Overwrites or adds, into the own buffer. add() follows.
  void store(const GradientBuffer& own, const IncomingGradient& incoming);
  // Only with room. `version` is that of the weights that the mini-batch was computed from.
  void add(std::span<const SampleRange> named, uint64_t version, bool skip);
  void clear() { *this = PendingGradient(ranges_max_); }

  uint32_t mini_batches = 0;
  uint32_t skipped = 0;
  uint64_t samples = 0;
  uint64_t base_version = 0;
  float clip_scale = 1;  // still to be applied to what is in the buffer
  double largest = 0;    // bound on the magnitudes in the buffer, kept for kFloat16
  std::vector<SampleRange> ranges;
  std::vector<TouchedRange> touched;

 private:
  void merge(const GradientBuffer& own, const IncomingGradient& incoming);

  uint32_t ranges_max_;
};

}  // namespace ffdl::ps
