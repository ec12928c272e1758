#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "ffdl/comm/micro_batch_sum.h"
#include "ffdl/tuning/batch_size.h"

namespace ffdl {
namespace {

Status check(const BatchRule& rule, int rank, int workers) {
  if (rule.samples == 0) {
    return base::invalid_argument("divide a batch: 'samples' is 0; give those of one step");
  }
  if (rule.workers < 0) {
    return base::invalid_argument(
        "divide a batch: {} workers; give the number that the batch was chosen for, or 0 to keep "
        "the batch",
        rule.workers);
  }
  if (rule.samples_max > 0 && rule.samples_max < rule.samples) {
    return base::invalid_argument(
        "divide a batch: 'samples_max' is {}, less than the {} samples of a step", rule.samples_max,
        rule.samples);
  }
  if (workers < 1 || rank < 0 || rank >= workers) {
    return base::invalid_argument(
        "divide a batch: rank {} of {} workers; give 1 worker or more, and the rank of one of them",
        rank, workers);
  }
  return {};
}

uint64_t samples_of_step(const BatchRule& rule, int workers) {
  if (rule.workers == 0) return rule.samples;
  const double scale = static_cast<double>(workers) / rule.workers;
  const auto samples =
      static_cast<uint64_t>(std::llround(static_cast<double>(rule.samples) * scale));
  return std::clamp(samples, uint64_t{1}, rule.samples_max > 0 ? rule.samples_max : UINT64_MAX);
}

double factor_of(LearningRateRule rule, double scale, double gain) {
  switch (rule) {
    case LearningRateRule::kConstant:
      return 1;
    case LearningRateRule::kLinear:
      return scale;
    case LearningRateRule::kSquareRoot:
      return std::sqrt(scale);
    case LearningRateRule::kAdaScale:
      return gain;
  }
  return 1;
}

}  // namespace

Result<StepBatch> step_batch(const BatchRule& rule, int rank, int workers,
                             const NoiseScale& noise) {
  FFDL_RETURN_IF_ERROR(check(rule, rank, workers));
  StepBatch batch;
  batch.samples = samples_of_step(rule, workers);
  batch.share = even_shares(batch.samples, workers)[static_cast<size_t>(rank)];
  const uint64_t most = rule.micro_batch_max > 0 ? rule.micro_batch_max : UINT64_MAX;
  batch.micro_batches = batch.share / most + (batch.share % most != 0);

  const auto reference = static_cast<double>(rule.samples);
  const auto samples = static_cast<double>(batch.samples);
  const double gain = noise.gain(reference, samples);
  batch.learning_rate_factor = factor_of(rule.learning_rate, samples / reference, gain);
  if (rule.learning_rate == LearningRateRule::kAdaScale) batch.progress = gain;
  return batch;
}

}  // namespace ffdl
