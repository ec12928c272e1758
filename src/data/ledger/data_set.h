#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/order/permutation.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/types.h"

namespace ffdl::data {

// A data set as numbers: its partitions, and the order in which an epoch uses them. Partition p
// with n samples has in epoch e the positions [e * n, (e + 1) * n).
//   A window is `window_partitions` places of that order. The first window begins at place 0; the
//   last window has the remaining places. Partitions keep their order in a window, with one
//   exception: the data set's last partition, which may be short, changes places with the window's
//   last. Sample j of the i-th partition of that row is number i * partition_samples + j. The
//   window's permutation maps number i * partition_samples + j to the number of the sample at
//   position j of the i-th partition. All of this defines the meaning of a saved state and must
//   never change.
struct DataSet {
  uint64_t samples = 1;
  uint64_t partition_samples = 1;
  uint64_t seed = 0;
  Shuffle shuffle = Shuffle::kPartitions;
  uint64_t window_partitions = 1;  // above 1 only with kSamples

  uint32_t partitions() const;
  uint64_t samples_of(uint32_t partition) const;
  // Returns the range of all samples of a partition in one epoch.
  SampleRange use(uint32_t partition, uint64_t epoch) const;

  // Reports whether the range is a part of one partition in one epoch.
  bool has(const SampleRange& range) const;

  // Converts a place in the order of an epoch to its partition, and back.
  uint32_t partition_at(uint64_t place, uint64_t epoch) const;
  uint64_t place_of(uint32_t partition, uint64_t epoch) const;
  // Returns the number of samples in the first `places` partitions of an epoch.
  uint64_t samples_before(uint64_t places, uint64_t epoch) const;

  // Returns the number of partitions that a worker needs to take `count` samples: all that the
  // samples can span, and one to read ahead. Returns 0 if `count` is 0 or kAll.
  uint64_t partitions_for(uint64_t count) const;

  // Appends the index of each sample of a range in the order of training. Requires has(range).
  void add_indices(const SampleRange& range, std::vector<uint64_t>& indices) const;

 private:
  Permutation order_of(uint64_t epoch) const;
  Permutation order_within(uint64_t partition_or_window, uint64_t count, uint64_t epoch) const;
  void find_in_window(const SampleRange& range, std::span<uint64_t> found) const;
};

// Returns the first `count` samples of these ranges, in at most `ranges_max` ranges.
std::vector<SampleRange> front_of(std::span<const SampleRange> ranges, uint64_t count,
                                  uint64_t ranges_max = SampleLedger::kAll);

}  // namespace ffdl::data
