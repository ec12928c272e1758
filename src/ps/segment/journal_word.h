#pragma once

#include <cstdint>

namespace ffdl::ps {

// The journal word means: the shadow of `block` is complete; earlier blocks are in place, later
// blocks are untouched. It refers to the sequence of one learner. Learner 255 means a round of all
// learners, or a batch of this shard. A server has either rounds or batches.
struct JournalWord {
  static constexpr int kRound = 255;
  int learner = 0;
  uint64_t block_plus_one = 0;
  uint32_t sequence_low = 0;

  uint64_t pack() const {
    return static_cast<uint64_t>(learner) << 56 | block_plus_one << 32 | sequence_low;
  }
  static JournalWord unpack(uint64_t word) {
    return {.learner = static_cast<int>(word >> 56),
            .block_plus_one = word >> 32 & 0xffffff,
            .sequence_low = static_cast<uint32_t>(word)};
  }
};

}  // namespace ffdl::ps
