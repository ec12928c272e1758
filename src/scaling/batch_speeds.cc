#include "scaling/batch_speeds.h"

#include <algorithm>

namespace ffdl::scaling {
namespace {

constexpr uint64_t kMeanOf = 100;  // steps: older ones fade
constexpr size_t kSizesMax = 64;   // kept sizes: those measured last

bool is_same_size(const StepMeasurement& a, const StepMeasurement& b) {
  return a.workers == b.workers && a.batch == b.batch;
}

}  // namespace

void BatchSpeeds::add(const Measurement& measured) {
  if (measured.batch == 0 || measured.steps == 0 || !(measured.seconds > 0)) return;
  const auto steps = static_cast<double>(measured.steps);
  StepMeasurement speed{.workers = measured.workers,
                        .batch = static_cast<int64_t>(measured.batch),
                        .steps = measured.steps,
                        .step_s = measured.seconds / steps};
  const auto known =
      std::find_if(speeds_.begin(), speeds_.end(),
                   [&](const StepMeasurement& other) { return is_same_size(other, speed); });
  if (known != speeds_.end()) {
    speed.steps += known->steps;
    const double weight = steps / static_cast<double>(std::min(speed.steps, kMeanOf));
    speed.step_s = known->step_s + (speed.step_s - known->step_s) * std::min(weight, 1.0);
    speeds_.erase(known);
  }
  speeds_.push_back(speed);
  forget_oldest();
}

void BatchSpeeds::learn(std::span<const StepMeasurement> others) {
  std::vector<StepMeasurement> all(others.begin(), others.end());
  for (const StepMeasurement& mine : speeds_) {
    std::erase_if(all, [&](const StepMeasurement& other) { return is_same_size(other, mine); });
  }
  all.insert(all.end(), speeds_.begin(), speeds_.end());
  speeds_ = std::move(all);
  forget_oldest();
}

void BatchSpeeds::forget_oldest() {
  if (speeds_.size() <= kSizesMax) return;
  speeds_.erase(speeds_.begin(), speeds_.end() - static_cast<ptrdiff_t>(kSizesMax));
}

}  // namespace ffdl::scaling
