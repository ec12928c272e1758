#pragma once

#include <cstdint>

#include "ffdl/types.h"

namespace ffdl {

// The measured steps of a job in one configuration.
struct StepMeasurement {
  int workers = 1;
  int nodes = 1;       // on which the workers ran
  int64_t batch = 0;   // samples of a step, over all workers
  uint64_t steps = 0;  // the number of measured steps
  double step_s = 0;   // their mean time
  double sync_s = 0;   // the part of step_s spent waiting for other workers; 0: not measured
  Duration age{};      // since the last of the steps; 0: just measured, or not recorded

  // Returns the speed of all workers; 0 if no time was measured.
  double samples_per_s() const { return step_s > 0 ? static_cast<double>(batch) / step_s : 0; }
  bool operator==(const StepMeasurement&) const = default;
};

}  // namespace ffdl
