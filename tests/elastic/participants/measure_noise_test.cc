#include "elastic/participants/measure_noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace ffdl::elastic {
namespace {

constexpr size_t kDimensions = 50;
constexpr double kMean = 0.3;    // mean of each element
constexpr double kSpread = 2.0;  // its standard deviation, for one sample
constexpr double kNorm = kDimensions * kMean * kMean;
constexpr double kVariance = kDimensions * kSpread * kSpread;

using Vector = std::vector<double>;

// Returns the mean over `samples` samples.
Vector draw(std::mt19937& random, uint64_t samples) {
  std::normal_distribution<double> normal(kMean, kSpread / std::sqrt(static_cast<double>(samples)));
  Vector gradient(kDimensions);
  for (double& element : gradient) element = normal(random);
  return gradient;
}

double norm(const Vector& gradient) {
  double sum = 0;
  for (const double element : gradient) sum += element * element;
  return sum;
}

TEST(NoiseOfParts, IsUnbiasedWithUnequalParts) {
  std::mt19937 random(7);
  const std::vector<uint64_t> shares = {4, 0, 16, 12};
  constexpr int kSteps = 4000;
  NoiseSample mean;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<Contribution> parts;
    Vector sum(kDimensions);
    for (const uint64_t share : shares) {
      if (share == 0) {  // its gradient may be any value
        parts.push_back({0, std::nan("")});
        continue;
      }
      const Vector gradient = draw(random, share);
      parts.push_back({share, norm(gradient)});
      for (size_t i = 0; i < kDimensions; ++i) {
        sum[i] += gradient[i] * static_cast<double>(share) / 32;
      }
    }
    const auto sample = noise_of_parts(parts, norm(sum));
    ASSERT_TRUE(sample);
    mean.variance += sample->variance / kSteps;
    mean.squared_norm += sample->squared_norm / kSteps;
  }
  EXPECT_NEAR(mean.variance / kVariance, 1, 0.03);
  EXPECT_NEAR(mean.squared_norm / kNorm, 1, 0.05);
}

TEST(NoiseOfPair, IsUnbiased) {
  std::mt19937 random(8);
  constexpr int kPairs = 4000;
  NoiseSample mean;
  for (int pair = 0; pair < kPairs; ++pair) {
    const Vector one = draw(random, 8);
    const Vector two = draw(random, 8);
    Vector difference(kDimensions);
    for (size_t i = 0; i < kDimensions; ++i) difference[i] = one[i] - two[i];
    const auto sample = noise_of_pair(8, norm(two), norm(difference));
    ASSERT_TRUE(sample);
    mean.variance += sample->variance / kPairs;
    mean.squared_norm += sample->squared_norm / kPairs;
  }
  EXPECT_NEAR(mean.variance / kVariance, 1, 0.03);
  EXPECT_NEAR(mean.squared_norm / kNorm, 1, 0.05);
}

TEST(NoiseOfParts, NothingFromFewerThanTwoOrFromWhatIsNotFinite) {
  const Contribution lonely[] = {{8, 1}, {0, 5}};
  EXPECT_FALSE(noise_of_parts(lonely, 1));
  const Contribution overflow[] = {{8, std::numeric_limits<double>::infinity()}, {8, 1}};
  EXPECT_FALSE(noise_of_parts(overflow, 1));
  EXPECT_FALSE(noise_of_parts({{{8, 1}, {8, 1}}}, std::nan("")));
  EXPECT_FALSE(noise_of_pair(8, 1, std::nan("")));
}

TEST(NoiseAverage, ForgetsAndIsNotBiasedByItsBeginning) {
  NoiseAverage average;
  EXPECT_EQ(average.read(), NoiseScale{});
  average.add({10, 2}, 0.9);
  EXPECT_NEAR(average.read().variance, 10, 1e-12);
  EXPECT_NEAR(average.read().squared_norm, 2, 1e-12);
  for (int i = 0; i < 200; ++i) average.add({30, 6}, 0.9);
  EXPECT_NEAR(average.read().variance, 30, 1e-6);
  EXPECT_EQ(average.read().measurements, 201U);
  average.add({-1e9, -1e9}, 0.0);
  EXPECT_EQ(average.read().variance, 0);  // an estimate may be negative, a published value may not
  EXPECT_EQ(average.read().squared_norm, 0);
}

}  // namespace
}  // namespace ffdl::elastic
