#pragma once

#include <span>
#include <vector>

#include "ffdl/cluster/autoscaler.h"
#include "scaling/measurement.h"

namespace ffdl::scaling {

// Remembers the speed of a job with each number of workers and each batch. A speed is the mean of
// about the last hundred steps. Only the sizes that were measured last are kept.
class BatchSpeeds {
 public:
  // Adds a measurement; one over steps of several batches is ignored.
  void add(const Measurement& measured);
  // Adds the speeds of other members for sizes that this one has not measured.
  void learn(std::span<const StepMeasurement> others);

  const std::vector<StepMeasurement>& all() const { return speeds_; }

 private:
  void forget_oldest();

  std::vector<StepMeasurement> speeds_;  // the latest at the end
};

}  // namespace ffdl::scaling
