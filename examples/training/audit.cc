#include "training/audit.h"

#include <fmt/core.h>

#include <numeric>

#include "training/shares.h"

namespace training {

Ledger sum_ledger(const ffdl::ParameterServerStats& stats) {
  Ledger sum;
  for (const ffdl::PartitionProgress& partition : stats.partitions) {
    sum.committed += partition.committed;
    sum.repeated += partition.repeated;
    sum.missing += partition.missing;
  }
  for (const ffdl::LearnerProgress& learner : stats.learners) sum.skipped += learner.skipped;
  return sum;
}

ffdl::Status audit(const ffdl::ParameterServerStats& stats, uint64_t train_samples,
                   uint64_t epochs) {
  const auto partitions = static_cast<uint32_t>(stats.partitions.size());
  for (uint32_t i = 0; i < partitions; ++i) {
    const ffdl::PartitionProgress& partition = stats.partitions[i];
    const uint64_t expected = epochs * Share{i, partitions, train_samples}.size();
    if (partition.samples == expected && partition.committed == expected &&
        partition.repeated == 0 && partition.missing == 0) {
      continue;
    }
    return {
        ffdl::StatusCode::kCorrupt,
        fmt::format("audit partition '{}': {} samples used and {} committed of {}, {} repeated, "
                    "{} missing; this is a bug, keep run.jsonl and report it",
                    i, partition.samples, partition.committed, expected, partition.repeated,
                    partition.missing)};
  }
  return {};
}

uint64_t median_staleness(const ffdl::ParameterServerStats& stats) {
  const auto& histogram = stats.staleness;
  const uint64_t total = std::accumulate(histogram.begin(), histogram.end(), uint64_t{0});
  uint64_t below = 0;
  for (std::size_t bucket = 0; bucket < histogram.size(); ++bucket) {
    below += histogram[bucket];
    if (2 * below >= total) return bucket == 0 ? 0 : uint64_t{1} << (bucket - 1);
  }
  return 0;
}

}  // namespace training
