#pragma once

#include <map>
#include <vector>

#include "ffdl/elastic_policy.h"
#include "ffdl/step_meter.h"

namespace ffdl::steer {

// How fast a job was at each size that it has had. Of one size the newest measurements count most:
// each leaves half of the mean in place.
class SpeedMemory {
 public:
  void add(const Measurement& measured, WallTime now);
  std::vector<SizeSpeed> speeds(WallTime now) const;  // by workers

 private:
  struct Speed {
    double samples_per_s = 0;
    WallTime at{};
  };
  std::map<int, Speed> speeds_;
};

// What a policy sees of a measurement; the speed is the mean that is remembered.
Observation observe(const Measurement& measured, const SpeedMemory& speeds, WallTime now);

}  // namespace ffdl::steer
