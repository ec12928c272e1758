#include <gtest/gtest.h>

#include <cmath>

#include "ffdl/tuning/gradient_noise.h"

namespace ffdl {
namespace {

TEST(NoiseScale, IsVarianceOverSquaredNorm) {
  EXPECT_EQ((NoiseScale{100, 4, 1}).value(), 25);
  EXPECT_EQ(NoiseScale{}.value(), 0);
  EXPECT_TRUE(std::isinf((NoiseScale{1, 0, 1}).value()));
}

TEST(NoiseScale, GainLiesBetweenOneAndTheRatio) {
  struct Case {
    NoiseScale noise;
    double samples;
    double gain;
  };
  const Case cases[] = {
      {{}, 320, 1},            // nothing is known
      {{0, 4, 1}, 320, 1},     // no noise: more samples add no information
      {{100, 0, 1}, 320, 10},  // noise alone: each sample counts
      {{32, 1, 1}, 320, 2 / 1.1},
      {{32, 1, 1}, 32, 1},
      {{32, 1, 1}, 16, 2.0 / 3},  // less than the reference
  };
  for (const Case& each : cases) {
    EXPECT_NEAR(each.noise.gain(32, each.samples), each.gain, 1e-12) << each.samples;
  }
}

}  // namespace
}  // namespace ffdl
