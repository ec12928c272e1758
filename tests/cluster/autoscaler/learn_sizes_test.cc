#include "cluster/autoscaler/learn_sizes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace ffdl::cluster {
namespace {

// Returns sizes as declared by an owner without measurements: the power of 0.8.
std::vector<SizeOption> said(int64_t batch = 0) {
  std::vector<SizeOption> sizes;
  for (int k = 1; k <= 8; ++k) sizes.push_back({k, std::pow(k, 0.8), batch});
  return sizes;
}

StepMeasurement measured(int workers, double speed, uint64_t steps = 50, int64_t batch = 64) {
  return {workers, 1, batch, steps, static_cast<double>(batch) / (100 * speed)};
}

double value(const std::vector<SizeOption>& sizes, int workers) {
  return sizes[static_cast<size_t>(workers) - 1].value;
}
float uncertainty(const std::vector<SizeOption>& sizes, int workers) {
  return sizes[static_cast<size_t>(workers) - 1].uncertainty;
}

TEST(LearnSizes, NothingMeasuredChangesNothing) {
  EXPECT_EQ(learn_sizes(said(), {}), said());
  const StepMeasurement few = measured(2, 1, 9);
  EXPECT_EQ(learn_sizes(said(), {&few, 1}), said());
}

TEST(LearnSizes, OneSizeAloneTeachesNothingOfTheOthers) {
  const StepMeasurement one = measured(2, 3);
  const auto sizes = learn_sizes(said(), {&one, 1});
  for (int k = 1; k <= 8; ++k) EXPECT_NEAR(value(sizes, k), std::pow(k, 0.8), 1e-9);
  EXPECT_LT(uncertainty(sizes, 2), uncertainty(sizes, 4));
  EXPECT_LT(uncertainty(sizes, 4), uncertainty(sizes, 8));
}

TEST(LearnSizes, MeasuredSizesAreWorthWhatWasMeasured) {
  const std::vector<StepMeasurement> speeds = {measured(1, 1), measured(2, 1.2), measured(4, 1.3)};
  const auto sizes = learn_sizes(said(), speeds);
  EXPECT_NEAR(value(sizes, 1), 1, 1e-9);
  EXPECT_NEAR(value(sizes, 2), 1.2, 1e-9);
  EXPECT_NEAR(value(sizes, 4), 1.3, 1e-9);
  EXPECT_GT(value(sizes, 3), 1.1);  // sizes between and beyond the measured ones lose confidence
  EXPECT_LT(value(sizes, 3), 1.7);
  EXPECT_LT(value(sizes, 8), 2.2);
}

TEST(LearnSizes, OfASizeWithABatchOnlyStepsOfThatBatchCount) {
  const std::vector<StepMeasurement> speeds = {measured(1, 1), measured(2, 9, 500, 32),
                                               measured(2, 1.5)};
  EXPECT_NEAR(value(learn_sizes(said(64), speeds), 2), 1.5, 1e-9);
  // the size with the most measurements
  EXPECT_NEAR(value(learn_sizes(said(), speeds), 2), 9, 1e-9);
}

// Measurements are attributed to the best placement of a job. The declared difference between
// placements is kept.
TEST(LearnSizes, HowWorkersLieStaysWhatTheJobSaid) {
  const std::vector<SizeOption> sizes = {
      {1, 1.0}, {2, 1.2}, {.workers = 2, .value = 1.8, .nodes_max = 1}};
  const std::vector<StepMeasurement> speeds = {measured(1, 1), measured(2, 1.5)};
  const auto learned = learn_sizes(sizes, speeds);
  EXPECT_NEAR(learned[2].value, 1.5, 1e-9);
  EXPECT_NEAR(learned[1].value, 1.0, 1e-9);
  EXPECT_EQ(learned[1].uncertainty, learned[2].uncertainty);
  EXPECT_EQ(learned[2].nodes_max, 1);
}

// Draws jobs whose speed is a power of the workers, measured at two sizes with errors of 3 %. The
// speeds at other sizes are within two deviations as often as they should be.
TEST(LearnSizes, KnowsHowMuchItKnows) {
  std::mt19937_64 random(4);
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
  };
  int inside = 0, all = 0;
  for (int job = 0; job < 400; ++job) {
    const double power = uniform(0.2, 1);
    const auto speed = [&](int k) { return std::pow(k, power) * std::exp(uniform(-0.05, 0.05)); };
    const std::vector<StepMeasurement> speeds = {measured(2, speed(2)), measured(4, speed(4))};
    const auto sizes = learn_sizes(said(), speeds);
    for (const int k : {3, 6, 8}) {  // relative to size 4, since the scale is arbitrary
      const double wrong =
          std::abs(std::log(value(sizes, k) / value(sizes, 4) / std::pow(k / 4.0, power)));
      inside += wrong <= 2 * uncertainty(sizes, k) ? 1 : 0;
      ++all;
    }
  }
  EXPECT_GE(inside, 0.93 * all);
}

}  // namespace
}  // namespace ffdl::cluster
