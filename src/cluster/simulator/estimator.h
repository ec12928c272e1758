#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "cluster/plan/scaling_model.h"
#include "cluster/simulator/application.h"
#include "cluster/simulator/simulator.h"

namespace ffdl::cluster {

// Learns the speed of one program while its jobs run. Threads: a value.
class SpeedEstimator {
 public:
  // Refits only if this configuration was not seen before.
  void observe(const StepMeasurement& measurement, const GradientStatistics& gradients);

  bool knows_anything() const { return !seen_.empty(); }
  const ScalingModel& model() const { return model_; }
  const GradientStatistics& first_gradients() const { return first_gradients_; }
  size_t version() const { return seen_.size(); }  // grows with each new configuration

 private:
  std::map<std::tuple<int, int, int64_t>, StepMeasurement> seen_;
  ScalingModel model_;
  GradientStatistics first_gradients_;  // the first job's; assumed for a new job
};

// The way in which a job would train with some workers.
struct Configuration {
  BatchSplit split;
  double rate = 0;  // samples a second (throughput), or steps of the smallest batch (goodput)
};

// The inputs to a job's best batch.
struct BatchQuestion {
  BatchLimits limits;
  GradientStatistics gradients;
  PlanObjective objective = PlanObjective::kGoodput;
  std::optional<int64_t> fixed_batch;  // no choice then
};

// Returns the best configuration; nothing if no batch is possible with so many workers.
std::optional<Configuration> best_configuration(const ScalingModel& model,
                                                const BatchQuestion& question, int nodes,
                                                int workers);

}  // namespace ffdl::cluster
