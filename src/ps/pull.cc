#include "ps/pull.h"

#include <algorithm>
#include <thread>

#include "ps/shared_copy.h"

namespace ffdl::ps {
namespace {

using namespace std::chrono_literals;

struct Part {
  uint64_t begin;
  uint64_t count;
};

// The weights of shard k, without the padding of the last block.
Part part_of_shard(const Region& region, int k) {
  const uint64_t all = region.config().parameters;
  const uint64_t begin = std::min(region.shard_begin(k) * kBlockFloats, all);
  const uint64_t end = std::min(region.shard_end(k) * kBlockFloats, all);
  return {begin, end - begin};
}

void copy_shard_between_updates(const Region& region, int k, std::span<float> to) {
  ShardWords& words = region.shard(k);
  const Part part = part_of_shard(region, k);
  bool asked = false;
  while (true) {
    const uint64_t before = words.seqlock.load(std::memory_order_acquire);
    if (before % 2 == 0) {
      copy_from_shared(to.data() + part.begin, region.weights() + part.begin, part.count);
      // A write that changes nothing: unlike a load it cannot move up into the copy.
      if (words.seqlock.fetch_add(0, std::memory_order_acq_rel) == before) break;
    }
    if (!asked) words.snapshots.fetch_add(1, std::memory_order_release);
    asked = true;
    std::this_thread::yield();
  }
  if (asked) words.snapshots_done.fetch_add(1, std::memory_order_release);
}

}  // namespace

uint64_t pull_weights(const Region& region, std::span<float> to, PullMode mode) {
  const uint64_t version = region.version();
  if (mode == PullMode::kRelaxed) {
    copy_from_shared(to.data(), region.weights(), region.config().parameters);
    return version;
  }
  for (int k = 0; k < region.shards(); ++k) copy_shard_between_updates(region, k, to);
  return version;
}

void pause_for_snapshots(const Region& region, int k, uint32_t& seen) {
  ShardWords& words = region.shard(k);
  const uint32_t asked = words.snapshots.load(std::memory_order_acquire);
  if (asked == seen) return;
  seen = asked;
  // Time for a copy at 1 GB/s, and for a reader that waits for a core.
  const auto copy_time = std::chrono::nanoseconds(part_of_shard(region, k).count * sizeof(float));
  const Time give_up = deadline_in(copy_time + 1ms);
  while (words.snapshots_done.load(std::memory_order_acquire) != asked &&
         std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
  }
}

}  // namespace ffdl::ps
