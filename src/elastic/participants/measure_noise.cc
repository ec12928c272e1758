#include "elastic/participants/measure_noise.h"

#include <algorithm>
#include <cmath>

namespace ffdl::elastic {
namespace {

std::optional<NoiseSample> if_finite(const NoiseSample& sample) {
  if (!std::isfinite(sample.variance) || !std::isfinite(sample.squared_norm)) return std::nullopt;
  return sample;
}

}  // namespace

std::optional<NoiseSample> noise_of_parts(std::span<const Contribution> parts, double mean_norm) {
  double count = 0;
  double samples = 0;
  double weighted = 0;
  for (const Contribution& part : parts) {
    if (part.samples == 0) continue;  // its gradient is undefined
    count += 1;
    samples += static_cast<double>(part.samples);
    weighted += static_cast<double>(part.samples) * part.squared_norm;
  }
  if (count < 2) return std::nullopt;
  const double variance = (weighted / samples - mean_norm) * samples / (count - 1);
  return if_finite({variance, mean_norm - variance / samples});
}

std::optional<NoiseSample> noise_of_pair(uint64_t samples, double mean_norm,
                                         double squared_distance) {
  const double of_mean = squared_distance / 2;  // variance of a mean of `samples`
  return if_finite({of_mean * static_cast<double>(samples), mean_norm - of_mean});
}

void NoiseAverage::add(const NoiseSample& sample, double smoothing) {
  const double share = 1 - smoothing;
  variance = smoothing * variance + share * sample.variance;
  squared_norm = smoothing * squared_norm + share * sample.squared_norm;
  weight = smoothing * weight + share;
  ++measurements;
}

NoiseScale NoiseAverage::read() const {
  if (measurements == 0) return {};
  return {std::max(variance / weight, 0.0), std::max(squared_norm / weight, 0.0), measurements};
}

}  // namespace ffdl::elastic
