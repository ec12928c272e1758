#include "data/ledger/partition_assignment.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace ffdl::data {

void HandOut::begin(const PartitionBoard& board) {
  epoch_ = std::numeric_limits<uint64_t>::max();
  for (uint32_t p = 0; p < data_.partitions(); ++p) {
    epoch_ = std::min(epoch_, board.committed(p) / data_.samples_of(p));
  }
}

bool HandOut::is_over(const PartitionBoard& board, uint32_t partition) const {
  return board.committed(partition) >= data_.use(partition, epoch_).end;
}

bool HandOut::is_mine(uint32_t partition) const {
  return std::any_of(leases_.begin(), leases_.end(),
                     [&](const SampleRange& lease) { return lease.partition == partition; });
}

Status HandOut::look(PartitionBoard& board, uint64_t wanted, std::span<const SampleRange> in_use,
                     const std::function<void()>& ended) {
  FFDL_RETURN_IF_ERROR(drop_used(board));
  while (!is_done()) {
    const uint64_t missing = wanted - std::min<uint64_t>(wanted, leases_.size());
    std::vector<uint32_t> free = find_free(board, missing + 1);
    if (free.empty() && open_.empty() && leases_.empty()) {
      ++epoch_;
      seen_ = 0;
      if (ended) ended();
      continue;
    }
    if (free.empty()) return give_back(board, in_use);
    // One partition is left for a worker without any. A worker without any takes the first.
    const size_t count = std::max<size_t>(free.size() - 1, leases_.empty() && wanted > 0 ? 1 : 0);
    const size_t before = leases_.size();
    FFDL_RETURN_IF_ERROR(hold_some(board, std::span(free).first(std::min(count, missing))));
    // The free ones may have been taken or used up since then: search further.
    if (leases_.empty() && wanted > 0) continue;
    if (leases_.size() == before || leases_.size() >= wanted) return {};
  }
  return {};
}

Status HandOut::drop_used(PartitionBoard& board) {
  for (auto lease = leases_.begin(); lease != leases_.end();) {
    FFDL_CHECK(lease->partition < data_.partitions(), "what is held is a partition");
    FFDL_ASSIGN_OR_RETURN(const uint64_t used, board.used(lease->partition));
    lease->begin = std::max(lease->begin, used);
    if (lease->begin < lease->end) {
      ++lease;
      continue;
    }
    FFDL_RETURN_IF_ERROR(board.let_go(lease->partition));
    lease = leases_.erase(lease);
  }
  return {};
}

// Returns the first partitions in the order of the epoch that are neither over nor held.
std::vector<uint32_t> HandOut::find_free(const PartitionBoard& board, uint64_t count) {
  std::vector<uint32_t> free;
  std::erase_if(open_, [&](uint32_t partition) { return is_over(board, partition); });
  for (const uint32_t partition : open_) {
    if (free.size() >= count) break;
    if (!is_mine(partition) && board.is_free(partition)) free.push_back(partition);
  }
  while (free.size() < count && seen_ < data_.partitions()) {
    const uint32_t partition = data_.partition_at(seen_++, epoch_);
    if (is_over(board, partition)) continue;
    open_.push_back(partition);
    if (board.is_free(partition)) free.push_back(partition);
  }
  return free;
}

Status HandOut::hold_some(PartitionBoard& board, std::span<const uint32_t> partitions) {
  for (const uint32_t partition : partitions) {
    FFDL_ASSIGN_OR_RETURN(const bool is_held, board.hold(partition));
    if (!is_held) continue;
    // The previous holder may have made progress since the last look.
    FFDL_ASSIGN_OR_RETURN(const uint64_t used, board.used(partition));
    const SampleRange lease{partition, used, data_.use(partition, epoch_).end};
    if (lease.begin < lease.end) {
      leases_.push_back(lease);
    } else {
      FFDL_RETURN_IF_ERROR(board.let_go(partition));
    }
  }
  return {};
}

// Releases all but the first partition, since workers without one wait and none is free.
Status HandOut::give_back(PartitionBoard& board, std::span<const SampleRange> in_use) {
  for (size_t i = leases_.size(); i > 1; --i) {
    const uint32_t partition = leases_[i - 1].partition;
    const bool is_used = std::any_of(in_use.begin(), in_use.end(), [&](const SampleRange& range) {
      return range.partition == partition;
    });
    if (is_used) continue;
    FFDL_RETURN_IF_ERROR(board.let_go(partition));
    leases_.erase(leases_.begin() + static_cast<std::ptrdiff_t>(i - 1));
  }
  return {};
}

uint64_t HandOut::committed(const PartitionBoard& board) const {
  if (is_done()) return 0;
  uint64_t sum = 0;
  for (uint32_t p = 0; p < data_.partitions(); ++p) {
    const SampleRange use = data_.use(p, epoch_);
    sum += std::clamp(board.committed(p), use.begin, use.end) - use.begin;
  }
  return sum;
}

}  // namespace ffdl::data
