#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ffdl/tuning/gradient_noise.h"

namespace ffdl::elastic {

// The contribution of one member to a step.
struct Contribution {
  uint64_t samples = 0;
  double squared_norm = 0;  // of the mean gradient over the samples
};

// Unbiased estimates from one step. Either may be negative.
struct NoiseSample {
  double variance = 0;
  double squared_norm = 0;
};

// Estimates from the members' gradients and their mean, each weighted by its samples. With B
// samples, n members, A the weighted mean of the members' squared norms and M the squared norm of
// the mean:
//   E[A] = norm + variance n / B,  E[M] = norm + variance / B
// Returns nothing if fewer than two members have samples, or if a number is not finite.
std::optional<NoiseSample> noise_of_parts(std::span<const Contribution> parts, double mean_norm);
// Estimates from two steps of one member with `samples` each. The gradient hardly changes between
// them, so the square of their difference is twice variance / samples.
std::optional<NoiseSample> noise_of_pair(uint64_t samples, double mean_norm,
                                         double squared_distance);

// Exponential averages. The two values are averaged separately, since their quotient would be
// biased.
struct NoiseAverage {
  double variance = 0;
  double squared_norm = 0;
  double weight = 0;  // total weight of the measurements; read() divides by it
  uint64_t measurements = 0;

  void add(const NoiseSample& sample, double smoothing);
  NoiseScale read() const;
};

}  // namespace ffdl::elastic
