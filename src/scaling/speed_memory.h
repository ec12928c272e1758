#pragma once

#include <map>
#include <vector>

#include "ffdl/scaling/elastic_policy.h"
#include "scaling/measurement.h"

namespace ffdl::scaling {

// Remembers the speed of a job at each size that it has had. The newest measurements of a size
// count most: each keeps half of the mean.
class SpeedMemory {
 public:
  void add(const Measurement& measured, WallTime now);
  // Returns the speeds, ordered by workers. The batch and the steps of each are those of its newest
  // measurement; the time of a step is by the mean speed.
  std::vector<StepMeasurement> speeds(WallTime now) const;

 private:
  struct Speed {
    double samples_per_s = 0;
    uint64_t steps = 0;  // of the newest measurement, as their samples
    uint64_t samples = 0;
    WallTime at{};
  };
  std::map<int, Speed> speeds_;
};

// Returns a policy's view of a measurement; its speed is the remembered mean.
Observation observe(const Measurement& measured, const SpeedMemory& speeds, WallTime now);

}  // namespace ffdl::scaling
