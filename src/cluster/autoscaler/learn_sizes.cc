#include "cluster/autoscaler/learn_sizes.h"

#include <cmath>
#include <optional>

namespace ffdl::cluster {
namespace {

constexpr uint64_t kStepsMin = 10;       // fewer are not evidence
constexpr double kMeasuredError = 0.05;  // relative, of a mean: machines vary over time
constexpr double kPowerError = 0.3;      // error in the owners' stated scaling, as a power

// The logarithm of measured over stated value, at the logarithm of the workers.
struct Point {
  size_t size;
  double x;
  double y;
};

// Returns the samples a second of a size; nothing if it was not measured.
std::optional<double> rate_of(const SizeOption& size, std::span<const StepMeasurement> speeds) {
  std::optional<double> rate;
  uint64_t steps = kStepsMin - 1;
  for (const StepMeasurement& speed : speeds) {
    const bool is_of_size = speed.workers == size.workers && speed.step_s > 0 &&
                            (size.batch == 0 || speed.batch == size.batch);
    if (!is_of_size || speed.steps <= steps) continue;
    steps = speed.steps;
    rate = static_cast<double>(speed.batch) / speed.step_s;
  }
  return rate;
}

bool is_same_size(const SizeOption& a, const SizeOption& b) {
  return a.workers == b.workers && a.batch == b.batch;
}

// Returns true for the most valuable of the sizes that differ only in placement. Speeds do not name
// the placement, so a job is assumed to have been measured with the best.
bool is_best_placed(size_t at, std::span<const SizeOption> sizes) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!is_same_size(sizes[i], sizes[at])) continue;
    if (sizes[i].value > sizes[at].value || (sizes[i].value == sizes[at].value && i < at)) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::vector<SizeOption> learn_sizes(std::vector<SizeOption> sizes,
                                    std::span<const StepMeasurement> speeds) {
  std::vector<Point> points;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!is_best_placed(i, sizes)) continue;
    const auto rate = rate_of(sizes[i], speeds);
    if (rate && sizes[i].value > 0) {
      points.push_back({i, std::log(sizes[i].workers), std::log(*rate / sizes[i].value)});
    }
  }
  if (points.empty()) return sizes;
  const auto count = static_cast<double>(points.size());
  double x = 0, y = 0;  // the means
  for (const Point& point : points) x += point.x / count, y += point.y / count;
  double xx = 0, xy = 0;
  for (const Point& point : points) {
    xx += (point.x - x) * (point.x - x);
    xy += (point.x - x) * (point.y - y);
  }
  const double error = kMeasuredError * kMeasuredError;
  const double power = xy / (xx + error / (kPowerError * kPowerError));
  const double power_variance = error / (xx + error / (kPowerError * kPowerError));
  // One worker keeps its stated value.
  double at_one = -power * x;
  for (const Point& point : points) {
    if (point.x == 0) at_one = point.y - y;
  }
  for (SizeOption& size : sizes) {
    const double from = std::log(size.workers) - x;
    size.value *= std::exp(power * from - at_one);
    size.uncertainty = static_cast<float>(std::sqrt(error / count + power_variance * from * from));
  }
  for (const Point& point : points) {
    for (SizeOption& size : sizes) {
      if (!is_same_size(size, sizes[point.size])) continue;
      size.value *= std::exp(point.y - y - power * (point.x - x));
      size.uncertainty = static_cast<float>(kMeasuredError);
    }
  }
  return sizes;
}

}  // namespace ffdl::cluster
