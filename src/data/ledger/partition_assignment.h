#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "data/ledger/data_set.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::data {

// The view that workers without shared state have of each other: the progress of partitions, and
// which worker holds which. Only a partition that a worker holds makes progress.
class PartitionBoard {
 public:
  virtual ~PartitionBoard() = default;

  virtual uint64_t committed(uint32_t partition) const = 0;
  // Returns committed(), plus what this worker did and has not committed yet.
  virtual Result<uint64_t> used(uint32_t partition) const = 0;
  virtual bool is_free(uint32_t partition) const = 0;  // a snapshot: it may be held a moment later
  // Returns false if another worker holds the partition.
  virtual Result<bool> hold(uint32_t partition) = 0;
  // Releases the partition. Other workers can hold it once all that this worker did of it is
  // committed.
  virtual Status let_go(uint32_t partition) = 0;
};

// Chooses the partitions that one worker holds. It decides from the board alone and asks no other
// process. Any number of workers with the same data set and board use each sample once per epoch.
// No clock, no threads.
class HandOut {
 public:
  HandOut(const DataSet& data, uint64_t epochs) : data_(data), epochs_(epochs) {}

  // Starts in the epoch that the board has reached.
  void begin(const PartitionBoard& board);

  // Drops used partitions and holds up to `wanted` partitions in the order of the epoch. A worker
  // without a partition takes the first free one. A worker takes more only while another free one
  // is left for a worker without any. When none is free, it releases all but its first. Partitions
  // of `in_use` are kept. Calls `ended`, if set, for each epoch found complete.
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
  uint64_t seen_ = 0;            // places of this epoch's order examined so far
  std::deque<uint32_t> open_{};  // those partitions that are not known to be over
  std::vector<SampleRange> leases_{};
};

}  // namespace ffdl::data
