#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ffdl/gradient_noise.h"

namespace ffdl::elastic {

// One member's part of a step.
struct Contribution {
  uint64_t samples = 0;
  double squared_norm = 0;  // of its mean over them
};

// Unbiased estimates of one step: either may come out negative.
struct NoiseSample {
  double variance = 0;
  double squared_norm = 0;
};

// From the members' gradients and their mean, each weighted by its samples. With B samples, n
// members, A the weighted mean of their squared norms and M that of the mean:
//   E[A] = norm + variance n / B,  E[M] = norm + variance / B
// Nothing where fewer than two have samples, or a number is not finite.
std::optional<NoiseSample> noise_of_parts(std::span<const Contribution> parts, double mean_norm);
// From two steps of one member with `samples` each, the gradient between them hardly changed: the
// square of their difference is twice variance / samples.
std::optional<NoiseSample> noise_of_pair(uint64_t samples, double mean_norm,
                                         double squared_distance);

// Averages that forget: both sums by themselves, as their quotient would be biased.
struct NoiseAverage {
  double variance = 0;
  double squared_norm = 0;
  double weight = 0;  // of all that came in; what is read is divided by it
  uint64_t measurements = 0;

  void add(const NoiseSample& sample, double smoothing);
  NoiseScale read() const;
};

}  // namespace ffdl::elastic
