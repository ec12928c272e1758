#pragma once

#include <cstdint>

namespace ffdl::ps {

// The journal word: "the shadow of `block` is whole; blocks before it are in place, blocks after it
// are untouched", for the sequence of one learner or, with learner 255, a round of all or a batch
// of this shard: a server has either.
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
