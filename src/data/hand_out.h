#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "data/data_set.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::data {

// What workers that share no state see of each other: how far partitions are, and who holds which.
// Only a partition that somebody holds gets further.
class PartitionBoard {
 public:
  virtual ~PartitionBoard() = default;

  virtual uint64_t committed(uint32_t partition) const = 0;
  // As committed(), with what this worker did and has not committed yet.
  virtual Result<uint64_t> used(uint32_t partition) const = 0;
  virtual bool is_free(uint32_t partition) const = 0;  // a look; it may be held a moment later
  // False: another worker holds it.
  virtual Result<bool> hold(uint32_t partition) = 0;
  // Others hold it once all that this worker did of it is committed.
  virtual Status let_go(uint32_t partition) = 0;
};

// Which partitions one worker holds: decided by looking at the board alone, so that a worker needs
// nobody to ask. Any number of them with the same data set and board use each sample once per
// epoch. No clock, no threads.
class HandOut {
 public:
  HandOut(const DataSet& data, uint64_t epochs) : data_(data), epochs_(epochs) {}

  // The epoch that the board is in.
  void begin(const PartitionBoard& board);

  // Drops what is used up, and holds up to `wanted` partitions, in the order of the epoch: the
  // first if any is free; those ahead of need only while another one is left for who has none, or
  // they are given back. What `in_use` names stays. `ended`, if given, is called for each epoch
  // that is seen to be over.
  Status look(PartitionBoard& board, uint64_t wanted, std::span<const SampleRange> in_use,
              const std::function<void()>& ended);

  const std::vector<SampleRange>& leases() const { return leases_; }
  uint64_t epoch() const { return epoch_; }
  bool is_done() const { return epoch_ >= epochs_; }
  uint64_t committed(const PartitionBoard& board) const;  // samples of this epoch

 private:
  Status drop_used(PartitionBoard& board);
  std::vector<uint32_t> find_free(const PartitionBoard& board, uint64_t count);
  Status hold_some(PartitionBoard& board, std::span<const uint32_t> partitions);
  Status give_back(PartitionBoard& board, std::span<const SampleRange> in_use);
  bool is_over(const PartitionBoard& board, uint32_t partition) const;
  bool is_mine(uint32_t partition) const;

  const DataSet data_;
  const uint64_t epochs_;
  uint64_t epoch_ = 0;
  uint64_t seen_ = 0;            // places of this epoch's order that were looked at
  std::deque<uint32_t> open_{};  // partitions among them that are not known to be over
  std::vector<SampleRange> leases_{};
};

}  // namespace ffdl::data
