#pragma once

#include <span>

#include "cluster/plan/scaling_model.h"

namespace ffdl::cluster {

// Returns the samples that one worker computes at once: an even part of the batch, rounded up.
inline int64_t local_batch_of(const StepMeasurement& measurement) {
  return (measurement.batch + measurement.workers - 1) / measurement.workers;
}

// Fills in the scales and the covariance of a model that was fitted to these measurements, one at
// least.
void estimate_uncertainty(std::span<const StepMeasurement> measurements, ScalingModel& model);

}  // namespace ffdl::cluster
