#include "scaling/speed_memory.h"

#include <algorithm>
#include <cmath>

namespace ffdl::scaling {

void SpeedMemory::add(const Measurement& measured, WallTime now) {
  if (!(measured.seconds > 0) || measured.samples == 0 || measured.steps == 0) return;
  const double samples_per_s = static_cast<double>(measured.samples) / measured.seconds;
  Speed& speed = speeds_[measured.workers];
  const bool is_new = speed.steps == 0;
  speed = {is_new ? samples_per_s : (speed.samples_per_s + samples_per_s) / 2, measured.steps,
           measured.samples, now};
}

std::vector<StepMeasurement> SpeedMemory::speeds(WallTime now) const {
  std::vector<StepMeasurement> all;
  for (const auto& [workers, speed] : speeds_) {
    const auto samples = static_cast<double>(speed.samples);
    const int64_t batch =
        std::max<int64_t>(std::llround(samples / static_cast<double>(speed.steps)), 1);
    all.push_back({.workers = workers,
                   .batch = batch,
                   .steps = speed.steps,
                   .step_s = static_cast<double>(batch) / speed.samples_per_s,
                   .age = std::max(now - speed.at, Duration::zero())});
  }
  return all;
}

Observation observe(const Measurement& measured, const SpeedMemory& speeds, WallTime now) {
  Observation seen;
  seen.at = now;
  seen.workers = measured.workers;
  seen.step = measured.step;
  if (measured.steps > 0) seen.step_s = measured.seconds / static_cast<double>(measured.steps);
  seen.communication_share = measured.communication_share;
  seen.metrics = measured.metrics;
  seen.speeds = speeds.speeds(now);
  for (const StepMeasurement& speed : seen.speeds) {
    if (speed.workers == seen.workers) seen.samples_per_s = speed.samples_per_s();
  }
  return seen;
}

}  // namespace ffdl::scaling
