#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "ffdl/cluster_simulator.h"
#include "ffdl/scaling_model.h"
#include "plan/application.h"

namespace ffdl::plan {

// What is known of the speed of one program, learned while its jobs run. Threads: a value.
class SpeedEstimator {
 public:
  // Refits only where this configuration was not seen before.
  void observe(const StepObservation& observation, const GradientStatistics& gradients);

  bool knows_anything() const { return !seen_.empty(); }
  const ScalingModel& model() const { return model_; }
  const GradientStatistics& first_gradients() const { return first_gradients_; }
  size_t version() const { return seen_.size(); }  // grows with each new configuration

 private:
  std::map<std::tuple<int, int, int64_t>, StepObservation> seen_;
  ScalingModel model_;
  GradientStatistics first_gradients_;  // of the first job ever: what a new one is taken to have
};

// How a job would train with some workers.
struct Configuration {
  BatchSplit split;
  double rate = 0;  // samples a second (throughput), or steps of the smallest batch (goodput)
};

// What decides a job's best batch.
struct BatchQuestion {
  BatchLimits limits;
  GradientStatistics gradients;
  PlanObjective objective = PlanObjective::kGoodput;
  std::optional<int64_t> fixed_batch;  // no choice then
};

// The best configuration; nothing if no batch is possible with so many workers.
std::optional<Configuration> best_configuration(const ScalingModel& model,
                                                const BatchQuestion& question, int nodes,
                                                int workers);

}  // namespace ffdl::plan
