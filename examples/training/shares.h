#pragma once

#include <cstdint>
#include <vector>

namespace training {

// One learner's part of the training samples: those at partition, partition + partitions, ...
struct Share {
  uint32_t partition = 0;
  uint32_t partitions = 1;
  uint64_t train_samples = 0;

  uint64_t size() const { return (train_samples + partitions - 1 - partition) / partitions; }
  uint64_t sample(uint64_t index) const { return partition + index * partitions; }
};

// Returns the order of a partition's share in one epoch: a permutation of 0 to size - 1 that every
// incarnation of its learner computes alike.
std::vector<uint64_t> epoch_order(uint64_t seed, uint64_t epoch, const Share& share);

}  // namespace training
