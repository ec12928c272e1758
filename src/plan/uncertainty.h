#pragma once

#include <span>

#include "ffdl/scaling_model.h"

namespace ffdl::plan {

// Fills in the scales and the covariance of a model that was fitted to these, one at least.
void estimate_uncertainty(std::span<const StepObservation> observations, ScalingModel& model);

}  // namespace ffdl::plan
