#include "cluster/simulator/estimator.h"

#include <cmath>
#include <vector>

namespace ffdl::cluster {
namespace {

// Batches are tried in steps of this ratio: finer ones change the best rate by less than 1 %.
constexpr double kBatchRatio = 1.189207115002721;  // the fourth root of 2

}  // namespace

void SpeedEstimator::observe(const StepMeasurement& measurement,
                             const GradientStatistics& gradients) {
  if (seen_.empty()) first_gradients_ = gradients;
  const auto key = std::tuple(measurement.nodes, measurement.workers, measurement.batch);
  if (!seen_.try_emplace(key, measurement).second) return;
  std::vector<StepMeasurement> all;
  for (const auto& [ignored, seen] : seen_) all.push_back(seen);
  model_ = fit_scaling_model(all);
}

std::optional<Configuration> best_configuration(const ScalingModel& model,
                                                const BatchQuestion& question, int nodes,
                                                int workers) {
  const BatchLimits& limits = question.limits;
  std::optional<Configuration> best;
  const auto consider = [&](int64_t batch) {
    const BatchSplit split = limits.split(batch, workers);
    if (split.local < limits.local_min || split.local > limits.local_max) return;
    const auto global = static_cast<double>(split.global(workers));
    double worth = global;
    if (question.objective == PlanObjective::kGoodput) {
      worth = question.gradients.gain(global / static_cast<double>(limits.global_min));
    }
    const double rate = worth / model.step_s(nodes, workers, split.local, split.accumulated);
    if (!best || rate > best->rate) best = Configuration{split, rate};
  };
  if (question.fixed_batch) {
    consider(*question.fixed_batch);
    return best;
  }
  const auto largest = static_cast<double>(limits.global_max);
  double batch = static_cast<double>(std::max(limits.global_min, limits.local_min * workers));
  while (batch < largest) {
    consider(std::llround(batch));
    batch *= kBatchRatio;
  }
  consider(limits.global_max);
  return best;
}

}  // namespace ffdl::cluster
