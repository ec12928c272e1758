#include "steer/profile_sums.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ffdl::steer {

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
  point.workers = workers_;
  point.steps = sums_.steps;
  point.host_memory_bytes = sums_.host_memory_bytes;
  if (sums_.steps == 0 || !(sums_.seconds > 0)) return point;
  const auto steps = static_cast<double>(sums_.steps), samples = static_cast<double>(sums_.samples);
  point.batch = static_cast<uint64_t>(std::llround(samples / steps));
  point.step_s = sums_.seconds / steps;
  point.communication_share = communication_s_ / sums_.seconds;
  point.samples_per_s = samples / sums_.seconds;
  return point;
}

}  // namespace ffdl::steer
