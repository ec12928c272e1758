#include "steer/speed_memory.h"

#include <algorithm>

namespace ffdl::steer {

void SpeedMemory::add(const Measurement& measured, WallTime now) {
  if (!(measured.seconds > 0)) return;
  const double samples_per_s = static_cast<double>(measured.samples) / measured.seconds;
  const auto [known, is_new] = speeds_.try_emplace(measured.workers, Speed{samples_per_s, now});
  if (!is_new) known->second = {(known->second.samples_per_s + samples_per_s) / 2, now};
}

std::vector<SizeSpeed> SpeedMemory::speeds(WallTime now) const {
  std::vector<SizeSpeed> all;
  for (const auto& [workers, speed] : speeds_) {
    all.push_back({workers, speed.samples_per_s, std::max(now - speed.at, Duration::zero())});
  }
  return all;
}

Observation observe(const Measurement& measured, const SpeedMemory& speeds, WallTime now) {
  Observation seen;
  seen.workers = measured.workers;
  seen.step = measured.step;
  if (measured.steps > 0) seen.step_s = measured.seconds / static_cast<double>(measured.steps);
  seen.communication_share = measured.communication_share;
  seen.metrics = measured.metrics;
  seen.speeds = speeds.speeds(now);
  for (const SizeSpeed& speed : seen.speeds) {
    if (speed.workers == seen.workers) seen.samples_per_s = speed.samples_per_s;
  }
  return seen;
}

}  // namespace ffdl::steer
