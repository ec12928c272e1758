#include "benchmarks/harness/statistics.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace ffdl::bench {
namespace {

constexpr int kResamples = 1000;

double median_in_place(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

}  // namespace

double median(std::vector<double> values) { return median_in_place(values); }

Estimate bootstrap_median(std::span<const double> values, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> medians(kResamples);
  std::vector<double> sample(values.size());
  for (double& one : medians) {
    for (double& drawn : sample) drawn = values[random() % values.size()];
    one = median_in_place(sample);
  }
  std::sort(medians.begin(), medians.end());
  return {median({values.begin(), values.end()}), medians[kResamples / 40],
          medians[kResamples - 1 - kResamples / 40]};
}

Estimate pair_ratio(std::span<const PairTimes> pairs, uint64_t seed) {
  std::vector<double> logs;
  logs.reserve(pairs.size());
  for (const PairTimes& pair : pairs) logs.push_back(std::log(pair.limit / pair.subject));
  const Estimate estimate = bootstrap_median(logs, seed);
  return {std::exp(estimate.value), std::exp(estimate.lo), std::exp(estimate.hi)};
}

}  // namespace ffdl::bench
