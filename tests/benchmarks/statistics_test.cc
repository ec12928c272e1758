#include "benchmarks/harness/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace ffdl::bench {
namespace {

TEST(Median, IsTheMiddleOrTheMeanOfTheTwoInTheMiddle) {
  EXPECT_DOUBLE_EQ(median({7}), 7);
  EXPECT_DOUBLE_EQ(median({9, 1, 5}), 5);
  EXPECT_DOUBLE_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_DOUBLE_EQ(median({2, 2, 2, 900}), 2);
}

TEST(BootstrapMedian, RepeatsWithItsSeed) {
  std::vector<double> values;
  for (int i = 0; i < 99; ++i) values.push_back(std::sin(i));
  const Estimate first = bootstrap_median(values, 7);
  const Estimate again = bootstrap_median(values, 7);
  EXPECT_EQ(first.lo, again.lo);
  EXPECT_EQ(first.hi, again.hi);
  EXPECT_LT(first.lo, first.value);
  EXPECT_GT(first.hi, first.value);
}

TEST(BootstrapMedian, HasNoWidthWhereThereIsNoSpread) {
  const Estimate estimate = bootstrap_median(std::vector<double>(20, 3.0), 1);
  EXPECT_EQ(estimate.lo, 3);
  EXPECT_EQ(estimate.value, 3);
  EXPECT_EQ(estimate.hi, 3);
}

TEST(BootstrapMedian, HoldsTheTrueMedianAboutAsOftenAsItSays) {
  std::mt19937_64 random(42);
  std::normal_distribution<double> noise;
  int held = 0;
  for (int run = 0; run < 200; ++run) {
    std::vector<double> values(60);
    for (double& value : values) value = noise(random);
    const Estimate estimate = bootstrap_median(values, static_cast<uint64_t>(run));
    if (estimate.lo <= 0 && 0 <= estimate.hi) ++held;
  }
  EXPECT_GE(held, 180);
  EXPECT_LE(held, 199);
}

TEST(PairRatio, IsLimitOverSubjectWithoutRegardToTheDriftOfBoth) {
  std::vector<PairTimes> pairs;
  for (int i = 1; i <= 50; ++i) pairs.push_back({.subject = 2.0 * i, .limit = 1.0 * i});
  const Estimate ratio = pair_ratio(pairs, 1);
  EXPECT_NEAR(ratio.value, 0.5, 1e-12);
  EXPECT_NEAR(ratio.lo, 0.5, 1e-12);
  EXPECT_NEAR(ratio.hi, 0.5, 1e-12);
}

TEST(PairRatio, WeighsTwiceAsFastLikeTwiceAsSlow) {
  const std::vector<PairTimes> pairs = {{1, 2}, {2, 1}};
  EXPECT_NEAR(pair_ratio(pairs, 1).value, 1, 1e-12);
}

}  // namespace
}  // namespace ffdl::bench
