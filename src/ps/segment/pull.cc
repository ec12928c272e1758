#include "ps/segment/pull.h"

#include <algorithm>
#include <thread>

#include "base/errors.h"
#include "base/limits.h"
#include "ps/segment/shared_copy.h"

namespace ffdl::ps {
namespace {

using namespace std::chrono_literals;

struct Part {
  uint64_t begin;
  uint64_t count;
};

// Returns the weights of shard k, without the padding of the last block.
Part part_of_shard(const Region& region, int k) {
  const uint64_t all = region.config().parameters;
  const uint64_t begin = std::min(region.shard_begin(k) * kBlockFloats, all);
  const uint64_t end = std::min(region.shard_end(k) * kBlockFloats, all);
  return {begin, end - begin};
}

// Waits until the shard's thread pauses after the current fold. Returns false at the deadline.
bool wait_for_even(const ShardWords& words, Time deadline) {
  while (words.seqlock.load(std::memory_order_acquire) % 2 == 1) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

Status read_shard_between_updates(const Region& region, int k, const ReadWeights& read) {
  ShardWords& words = region.shard(k);
  const Part part = part_of_shard(region, k);
  const Time deadline = deadline_in(base::kSnapshotWaitMax);
  bool asked = false;
  while (true) {
    const uint64_t before = words.seqlock.load(std::memory_order_acquire);
    if (before % 2 == 0) {
      FFDL_RETURN_IF_ERROR(read(part.begin, part.count));
      // A write that changes nothing: unlike a load, it cannot be reordered before the reading.
      if (words.seqlock.fetch_add(0, std::memory_order_acq_rel) == before) break;
    }
    words.snapshots.fetch_add(1, std::memory_order_release);
    asked = true;
    if (!wait_for_even(words, deadline)) {
      return base::make_error(
          StatusCode::kTimeout,
          "pull a snapshot: shard {} has been in the middle of an update for {} s; "
          "is its server dead (adopt it) or stopped",
          k, base::kSnapshotWaitMax.count());
    }
  }
  if (asked) words.snapshots_done.fetch_add(1, std::memory_order_release);
  return {};
}

}  // namespace

Result<uint64_t> pull_weights(const Region& region, PullMode mode, const ReadWeights& read) {
  const uint64_t version = region.version();
  if (mode == PullMode::kRelaxed) {
    FFDL_RETURN_IF_ERROR(read(0, region.config().parameters));
    return version;
  }
  for (int k = 0; k < region.shards(); ++k) {
    FFDL_RETURN_IF_ERROR(read_shard_between_updates(region, k, read));
  }
  return version;
}

Result<uint64_t> pull_weights(const Region& region, std::span<float> to, PullMode mode) {
  return pull_weights(region, mode, [&](uint64_t begin, uint64_t count) -> Status {
    copy_from_shared(to.data() + begin, region.weights() + begin, count);
    return {};
  });
}

Status check_pull_rows(const Region& region, const RowWeights& wanted) {
  const uint64_t parameters = region.config().parameters;
  const uint64_t floats = wanted.values.size();
  if (wanted.row_size == 0 || floats != wanted.rows.size() * wanted.row_size ||
      wanted.table > parameters) {
    return base::invalid_argument(
        "pull rows of the table at parameter {}: {} rows of {} floats into {} floats; give room "
        "for row_size floats per row",
        wanted.table, wanted.rows.size(), wanted.row_size, floats);
  }
  const uint64_t rows_there = (parameters - wanted.table) / wanted.row_size;
  for (const uint64_t row : wanted.rows) {
    if (row < rows_there) continue;
    return base::invalid_argument("pull rows of the table at parameter {}: row {} of {}",
                                  wanted.table, row, rows_there);
  }
  return {};
}

void copy_rows(const Region& region, const RowWeights& wanted, float* to) {
  for (const uint64_t row : wanted.rows) {
    copy_from_shared(to, region.weights() + wanted.table + row * wanted.row_size, wanted.row_size);
    to += wanted.row_size;
  }
}

// The first pause allows a copy at 1 GB/s, and 1 ms for a reader that waits for a core.
SnapshotPauses::SnapshotPauses(const Region& region, int k)
    : words_(region.shard(k)),
      seen_(words_.snapshots.load(std::memory_order_acquire)),
      shortest_(std::chrono::nanoseconds(part_of_shard(region, k).count * sizeof(float)) + 1ms),
      patience_(shortest_) {}

void SnapshotPauses::pause_if_asked() {
  const uint32_t asked = words_.snapshots.load(std::memory_order_acquire);
  if (asked == seen_) return;
  // Counted from here: a reader that died or asked twice never reports all its requests as done.
  const uint32_t done_before = words_.snapshots_done.load(std::memory_order_acquire);
  const uint32_t awaited = asked - seen_;
  seen_ = asked;
  const Time give_up = deadline_in(patience_);
  const auto done = [&] {
    return words_.snapshots_done.load(std::memory_order_acquire) - done_before >= awaited;
  };
  while (!done() && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  patience_ = done() ? shortest_ : std::min<Duration>(2 * patience_, base::kSnapshotPauseMax);
}

}  // namespace ffdl::ps
