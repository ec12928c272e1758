#include "ps/segment/stats.h"

#include "shm/liveness.h"

namespace ffdl::ps {
namespace {

uint64_t ledger_word(const Region& region, uint64_t word) {
  return region.ledger(word).load(std::memory_order_relaxed);
}

LearnerProgress read_learner(const Region& region, int l) {
  const LearnerWords& words = region.learner(l);
  LearnerProgress progress;
  progress.slot = l;
  progress.attached = words.attached.load(std::memory_order_acquire) != 0;
  progress.pid = words.pid.load(std::memory_order_relaxed);
  progress.incarnation = words.incarnation.load(std::memory_order_relaxed);
  progress.folded = region.folded_everywhere(l);  // first: folded <= published in every report
  progress.published = words.pub.load(std::memory_order_acquire);
  progress.mini_batches = ledger_word(region, region.slot_word(l, kMiniBatches));
  progress.skipped = ledger_word(region, region.slot_word(l, kSkipped));
  progress.samples = ledger_word(region, region.slot_word(l, kSlotSamples));
  return progress;
}

}  // namespace

PartitionProgress read_partition(const Region& region, uint32_t partition) {
  const auto word = [&](PartitionWord which) {
    return ledger_word(region, Region::partition_word(partition, which));
  };
  return {.committed = word(kCommitted),
          .samples = word(kSamples),
          .repeated = word(kRepeated),
          .missing = word(kMissing)};
}

ParameterServerStats read_stats(const Region& region, int fd) {
  const ServerWords& server = region.server();
  ParameterServerStats stats;
  stats.version = region.version();
  stats.epoch = server.epoch.load(std::memory_order_relaxed);
  stats.server_alive = shm::role_is_held(fd, shm::kOwnerRole);
  stats.server_pid = server.pid.load(std::memory_order_relaxed);
  stats.recoveries = server.recoveries.load(std::memory_order_relaxed);
  for (int l = 0; l < region.learners_max(); ++l) {
    if (region.learner(l).incarnation.load(std::memory_order_relaxed) > 0) {
      stats.learners.push_back(read_learner(region, l));
    }
  }
  // After the slots: a death that freed one of them is counted.
  stats.learners_reclaimed = server.reclaimed.load(std::memory_order_relaxed);
  for (uint32_t p = 0; p < region.config().partitions; ++p) {
    stats.partitions.push_back(read_partition(region, p));
  }
  for (uint64_t bucket = 0; bucket < kStalenessWords; ++bucket) {
    stats.staleness[bucket] = ledger_word(region, region.staleness_word(bucket));
  }
  return stats;
}

}  // namespace ffdl::ps
