#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/permutation.h"
#include "ffdl/partition_ledger.h"
#include "ffdl/types.h"

namespace ffdl::data {

// A data set as numbers: how it is cut into partitions, and in which order an epoch uses them. The
// use of partition p in epoch e is the positions [e * n, (e + 1) * n), n being its samples.
//   A window is `window_partitions` places of that order, the first window from place 0 on; the
//   last has what is left. Its partitions stand in it as they do in the order, but the one that may
//   be short, the data set's last, has exchanged places with the window's last. In that row sample
//   j of the i-th partition is number i * partition_samples + j. Position j of the i-th partition
//   is the sample whose number the window's permutation has at i * partition_samples + j. All of
//   it is part of what a saved state means, and must never change.
struct DataSet {
  uint64_t samples = 1;
  uint64_t partition_samples = 1;
  uint64_t seed = 0;
  Shuffle shuffle = Shuffle::kPartitions;
  uint64_t window_partitions = 1;  // more than 1: of kSamples

  uint32_t partitions() const;
  uint64_t samples_of(uint32_t partition) const;
  // All of a partition in one epoch.
  SampleRange use(uint32_t partition, uint64_t epoch) const;

  // Whether it is some part of a partition in one epoch.
  bool has(const SampleRange& range) const;

  // The order of an epoch, and back.
  uint32_t partition_at(uint64_t place, uint64_t epoch) const;
  uint64_t place_of(uint32_t partition, uint64_t epoch) const;
  // The samples of the first `places` partitions of an epoch.
  uint64_t samples_before(uint64_t places, uint64_t epoch) const;

  // How many partitions a worker needs that takes so many samples: those that they can lie in, and
  // one to read ahead. Of none, or kAll, it says nothing: 0.
  uint64_t partitions_for(uint64_t count) const;

  // Adds where each sample of a range that it has lies, in the order of training.
  void add_indices(const SampleRange& range, std::vector<uint64_t>& indices) const;

 private:
  Permutation order_of(uint64_t epoch) const;
  Permutation order_within(uint64_t partition_or_window, uint64_t count, uint64_t epoch) const;
  void find_in_window(const SampleRange& range, std::span<uint64_t> found) const;
};

// The first `count` samples of these ranges, in at most `ranges_max` of them.
std::vector<SampleRange> front_of(std::span<const SampleRange> ranges, uint64_t count,
                                  uint64_t ranges_max = SampleLedger::kAll);

}  // namespace ffdl::data
