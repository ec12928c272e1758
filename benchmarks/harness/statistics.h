#pragma once

#include <cstdint>
#include <span>
#include <vector>

// The statistics of a figure. Pure.
namespace ffdl::bench {

// A middle value and its 95 % bounds.
struct Estimate {
  double value = 0;
  double lo = 0;
  double hi = 0;
};

// The seconds that the two contenders of one pair took for the same work.
struct PairTimes {
  double subject = 0;
  double limit = 0;
};

// Returns the middle value, or the mean of the two in the middle. `values` must not be empty.
double median(std::vector<double> values);

// Returns the median and its percentile bootstrap bounds. The same values and seed give the same
// bounds.
Estimate bootstrap_median(std::span<const double> values, uint64_t seed);

// Returns exp(median of ln(limit / subject)) with its bounds: 1 if the subject is as fast as the
// limit, smaller if it is slower.
Estimate pair_ratio(std::span<const PairTimes> pairs, uint64_t seed);

}  // namespace ffdl::bench
