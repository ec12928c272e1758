#include "scaling/profile_sums.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ffdl::scaling {

void ProfileSums::add(const Measurement& measured) {
  if (measured.workers != workers_ || !std::exchange(is_warm_, true)) return;
  sums_.steps += measured.steps;
  sums_.seconds += measured.seconds;
  sums_.samples += measured.samples;
  communication_s_ += measured.communication_share * measured.seconds;
  sums_.host_memory_bytes = std::max(sums_.host_memory_bytes, measured.host_memory_bytes);
}

ProfilePoint ProfileSums::point() const {
  ProfilePoint point;
  point.step.workers = workers_;
  point.step.steps = sums_.steps;
  point.host_memory_bytes = sums_.host_memory_bytes;
  if (sums_.steps == 0 || !(sums_.seconds > 0)) return point;
  const auto steps = static_cast<double>(sums_.steps), samples = static_cast<double>(sums_.samples);
  point.step.batch = std::llround(samples / steps);
  point.step.step_s = sums_.seconds / steps;
  point.step.sync_s = communication_s_ / steps;
  return point;
}

}  // namespace ffdl::scaling
