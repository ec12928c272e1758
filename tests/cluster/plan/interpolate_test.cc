#include "cluster/plan/interpolate.h"

#include <gtest/gtest.h>

#include <random>

namespace ffdl::cluster {
namespace {

std::vector<Sample> random_samples(std::mt19937& random, size_t count) {
  std::uniform_real_distribution<double> real(-3, 7);
  std::vector<Sample> samples;
  for (size_t i = 0; i < count; ++i) {
    const std::array<double, 3> at{real(random), 100 * real(random), real(random)};
    samples.push_back({at, {2 + at[0] - 3 * at[1] + 5 * at[2], at[1]}});
  }
  return samples;
}

TEST(Interpolate, ReproducesLinearFunctionsInsideTheHull) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> real(0, 1);
  for (int round = 0; round < 200; ++round) {
    const auto samples = random_samples(random, 4 + static_cast<size_t>(round));
    std::array<double, 3> point{};
    double total = 0;
    for (const Sample& sample : samples) {
      const double weight = real(random);
      total += weight;
      for (size_t i = 0; i < 3; ++i) point[i] += weight * sample.at[i];
    }
    for (double& one : point) one /= total;
    const auto value = interpolate(samples, point);
    ASSERT_TRUE(value) << "round " << round;
    EXPECT_NEAR((*value)[0], 2 + point[0] - 3 * point[1] + 5 * point[2], 1e-6);
    EXPECT_NEAR((*value)[1], point[1], 1e-6);
  }
}

TEST(Interpolate, KeepsToTheSamplesAround) {
  // Boxes in a row whose corners hold the square of x. Between them the result is the chord of this
  // box only.
  std::vector<Sample> samples;
  for (int x = 0; x <= 10; ++x) {
    for (const double y : {0.0, 1.0}) {
      for (const double z : {0.0, 1.0}) samples.push_back({{1.0 * x, y, z}, {1.0 * x * x, 0}});
    }
  }
  EXPECT_NEAR((*interpolate(samples, {3.5, 0.3, 0.6}))[0], 12.5, 1e-9);
  EXPECT_NEAR((*interpolate(samples, {9.25, 0.9, 0.0}))[0], 0.75 * 81 + 0.25 * 100, 1e-9);
  EXPECT_NEAR((*interpolate(samples, {7, 1, 0}))[0], 49, 1e-9);
}

TEST(Interpolate, KnowsNothingOutsideTheHull) {
  std::mt19937 random(2);
  const auto samples = random_samples(random, 50);
  EXPECT_FALSE(interpolate(samples, {8, 0, 0}));
  EXPECT_FALSE(interpolate(samples, {0, 701, 0}));
  EXPECT_FALSE(interpolate({}, {0, 0, 0}));
}

}  // namespace
}  // namespace ffdl::cluster
