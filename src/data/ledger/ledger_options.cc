#include "data/ledger/ledger_options.h"

#include "base/errors.h"
#include "base/limits.h"

namespace ffdl::data {
namespace {

using base::invalid_argument;

Status check_batch(const LedgerOptions& options, const LedgerMemberOptions& member) {
  const uint64_t batch = options.batch_samples;
  const uint64_t micro_batch = options.micro_batch_samples;
  if (options.order == SampleOrder::kOnDemand) {
    if (batch == 0 && micro_batch == 1 && !member.batch_size_controller) return {};
    return invalid_argument(
        "make a ledger: batch_samples {}, micro_batch_samples {} and batch_size_controller have no "
        "effect with SampleOrder::kOnDemand; give take() the number of samples of a member, or use "
        "SampleOrder::kGlobal",
        batch, micro_batch);
  }
  if (batch > 0 && batch <= base::kSamplesMax && micro_batch > 0 && batch % micro_batch == 0) {
    return {};
  }
  return invalid_argument(
      "make a ledger: batch_samples is {} and micro_batch_samples {}; give 1 to {} for both, and "
      "make the first a multiple of the second",
      batch, micro_batch, base::kSamplesMax);
}

}  // namespace

Status check_options(const LedgerOptions& options, const LedgerMemberOptions& member) {
  if (options.samples < 1 || options.samples > base::kSamplesMax) {
    return invalid_argument("make a ledger: samples is {}; give 1 to {}", options.samples,
                            base::kSamplesMax);
  }
  if (options.partition_samples < 1 || options.partition_samples > base::kPartitionSamplesMax ||
      (options.samples - 1) / options.partition_samples >= base::kPartitionsMax) {
    return invalid_argument(
        "make a ledger: partition_samples is {} for {} samples; give 1 to {}, and make "
        "at most {} partitions",
        options.partition_samples, options.samples, base::kPartitionSamplesMax,
        base::kPartitionsMax);
  }
  if (options.epochs > base::kEpochsMax) {
    return invalid_argument("make a ledger: epochs is {}; give at most {}, or 0", options.epochs,
                            base::kEpochsMax);
  }
  if (options.window_partitions < 1 ||
      (options.window_partitions > 1 && options.shuffle != Shuffle::kSamples)) {
    return invalid_argument(
        "make a ledger: window_partitions is {} and samples are {}; give 1, or more "
        "with Shuffle::kSamples",
        options.window_partitions,
        options.shuffle == Shuffle::kSamples ? "shuffled" : "not shuffled");
  }
  return check_batch(options, member);
}

LedgerRules rules_of(const LedgerOptions& options) {
  LedgerRules rules;
  rules.data.samples = options.samples;
  rules.data.partition_samples = options.partition_samples;
  rules.data.seed = options.seed;
  rules.data.shuffle = options.shuffle;
  rules.data.window_partitions = options.window_partitions;
  rules.epochs = options.epochs == 0 ? base::kEpochsMax : options.epochs;
  rules.order = options.order;
  rules.batch_samples = options.batch_samples;
  rules.micro_batch_samples = options.micro_batch_samples;
  return rules;
}

uint64_t samples_in(std::span<const SampleRange> ranges) {
  uint64_t sum = 0;
  for (const SampleRange& range : ranges) sum += range.end - range.begin;
  return sum;
}

Result<std::vector<uint64_t>> look_up(std::span<const SampleRange> ranges, const DataSet& data) {
  std::vector<uint64_t> indices;
  for (const SampleRange& range : ranges) {
    if (!data.has(range)) {
      return invalid_argument(
          "look up samples [{}, {}) of partition {}: there are none within one epoch of {} "
          "partitions; give ranges of take() or leases()",
          range.begin, range.end, range.partition, data.partitions());
    }
    data.add_indices(range, indices);
  }
  return indices;
}

}  // namespace ffdl::data
