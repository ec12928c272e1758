#include "cluster/plan/profile_sizes.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "cluster/plan/scaling_model.h"
#include "cluster/plan/uncertainty.h"

namespace ffdl::cluster {
namespace {

constexpr double kCandidateRatio = 1.189207115002721;  // the fourth root of 2

// Returns each worker's part of an even split, rounded up.
int64_t local_of(int64_t batch, int workers) { return (batch + workers - 1) / workers; }

// Models memory as a fixed amount plus a part in proportion to a worker's samples. From one
// measurement the fixed amount is taken as zero.
class Memory {
 public:
  explicit Memory(const std::vector<FiledPoint>& points) {
    for (const FiledPoint& point : points) {
      if (point.device_memory_bytes == 0) continue;
      const auto local = static_cast<double>(local_batch_of(point.step));
      const auto bytes = static_cast<double>(point.device_memory_bytes);
      if (!is_known_ || local < low_) low_ = local, low_bytes_ = bytes;
      if (!is_known_ || local > high_) high_ = local, high_bytes_ = bytes;
      is_known_ = true;
    }
  }

  double bytes(int64_t local) const {
    if (!is_known_) return 0;
    const auto samples = static_cast<double>(local);
    if (high_ == low_) return high_bytes_ * std::max(samples / high_, 1.0);
    const double slope = std::max(high_bytes_ - low_bytes_, 0.0) / (high_ - low_);
    return low_bytes_ + slope * (samples - low_);
  }

 private:
  bool is_known_ = false;
  double low_ = 0, low_bytes_ = 0;
  double high_ = 0, high_bytes_ = 0;
};

std::vector<int64_t> candidates(const FiledProfile& profile, const ProfileLimits& limits) {
  if (limits.min_batch == 0 && limits.max_batch == 0) return {profile.batch};
  const int64_t most =
      limits.max_batch > 0 ? limits.max_batch : std::max(profile.batch, limits.min_batch);
  const int64_t least = limits.min_batch > 0 ? limits.min_batch : std::min(profile.batch, most);
  std::vector<int64_t> batches;
  auto batch = static_cast<double>(least);
  while (batch < static_cast<double>(most)) {
    batches.push_back(std::llround(batch));
    batch *= kCandidateRatio;
  }
  batches.push_back(most);
  return batches;
}

// Returns the seconds of a measured step; the mean of several measurements.
std::optional<double> measured(const FiledProfile& profile, int workers, int64_t batch) {
  double sum = 0;
  int count = 0;
  for (const FiledPoint& point : profile.points) {
    if (point.step.workers != workers || point.step.batch != batch) continue;
    sum += point.step.step_s;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

}  // namespace

std::vector<SizeOption> sizes_of(const FiledProfile& profile, const ProfileLimits& limits) {
  std::vector<StepMeasurement> measurements;
  int most = limits.max_workers;
  for (const FiledPoint& point : profile.points) {
    measurements.push_back(point.step);
    if (limits.max_workers == 0) most = std::max(most, point.step.workers);
  }
  const ScalingModel model = fit_scaling_model(measurements);
  const Memory memory(profile.points);
  std::vector<SizeOption> sizes;
  for (int workers = 1; workers <= most; ++workers) {
    SizeOption best{.workers = workers};
    for (const int64_t batch : candidates(profile, limits)) {
      const int64_t local = local_of(batch, workers);
      const bool fits = limits.device_memory == 0 ||
                        memory.bytes(local) <= static_cast<double>(limits.device_memory);
      if (!fits || batch < workers) continue;
      const double step =
          measured(profile, workers, batch).value_or(model.step_s(1, workers, local));
      const double rate = static_cast<double>(batch) / step;
      if (rate <= best.value) continue;
      best.value = rate;
      best.batch = batch;
      best.uncertainty = static_cast<float>(model.uncertainty(1, workers, local));
    }
    if (best.value > 0) sizes.push_back(best);
  }
  if (sizes.empty()) return sizes;
  const double one_worker = sizes[0].value / sizes[0].workers;
  for (SizeOption& size : sizes) size.value /= one_worker;
  return sizes;
}

}  // namespace ffdl::cluster
