#include "cluster/plan/uncertainty.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace ffdl::cluster {
namespace {

// Returns a sum of uniform draws, which is close enough to a normal draw and equal on every system.
double normal(std::mt19937_64& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>(random() >> 11) * 0x1p-53;
  return sum;
}

double uniform(std::mt19937_64& random, double low, double high) {
  return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
}

ScalingModel some_truth(std::mt19937_64& random) {
  ScalingModel truth;
  truth.compute_base_s = uniform(random, 0.005, 0.05);
  truth.compute_per_sample_s = uniform(random, 0.0005, 0.003);
  truth.within_node = {uniform(random, 0.002, 0.04), uniform(random, 0, 0.004)};
  truth.across_nodes = {truth.within_node.base_s * uniform(random, 1, 3),
                        truth.within_node.per_worker_s * uniform(random, 1, 2)};
  truth.overlap = uniform(random, 1, 3);
  return truth;
}

StepMeasurement seen(const ScalingModel& truth, int workers, int64_t batch, double error,
                     std::mt19937_64& random) {
  const int nodes = (workers + 3) / 4;
  const double step = truth.step_s(nodes, workers, batch) * std::exp(error * normal(random));
  const double compute = truth.step_s(1, 1, batch) * std::exp(error * normal(random));
  return {.workers = workers,
          .nodes = nodes,
          .batch = batch * workers,
          .step_s = step,
          .sync_s = std::max(step - compute, 0.0)};
}

ScalingModel fitted(const ScalingModel& truth, const std::vector<int>& sizes,
                    const std::vector<int64_t>& batches, double error, std::mt19937_64& random) {
  std::vector<StepMeasurement> observations;
  for (const int workers : sizes) {
    for (const int64_t batch : batches) {
      observations.push_back(seen(truth, workers, batch, error, random));
    }
  }
  return fit_scaling_model(observations);
}

// Returns the share of true values within two standard deviations, for many programs with errors of
// 3 %.
double covered(const std::vector<int>& sizes, const std::vector<int>& asked) {
  std::mt19937_64 random(7);
  int inside = 0, all = 0;
  for (int program = 0; program < 300; ++program) {
    const ScalingModel truth = some_truth(random);
    const ScalingModel model = fitted(truth, sizes, {16, 64}, 0.03, random);
    for (const int workers : asked) {
      for (const int64_t batch : {24, 48}) {
        const int nodes = (workers + 3) / 4;
        const double wrong = std::abs(
            std::log(model.step_s(nodes, workers, batch) / truth.step_s(nodes, workers, batch)));
        inside += wrong <= 2 * model.uncertainty(nodes, workers, batch) ? 1 : 0;
        ++all;
      }
    }
  }
  return static_cast<double>(inside) / all;
}

TEST(Uncertainty, TheTruthLiesWithinTwoDeviationsAsOftenAsItShould) {
  EXPECT_GE(covered({1, 2, 4, 8}, {1, 2, 3, 4, 6, 8}), 0.93);  // between the measured sizes
  EXPECT_GE(covered({1, 2, 4, 8}, {16, 32}), 0.9);             // beyond the measured sizes
  EXPECT_GE(covered({1}, {2, 4, 8}), 0.9);                     // over links without measurements
}

TEST(Uncertainty, IsSmallWhereMuchIsKnownAndGrowsAway) {
  std::mt19937_64 random(3);
  for (int program = 0; program < 50; ++program) {
    const ScalingModel truth = some_truth(random);
    const ScalingModel model = fitted(truth, {1, 2, 4, 8}, {16, 64}, 0.02, random);
    EXPECT_LT(model.uncertainty(1, 2, 32), 0.1);
    EXPECT_GT(model.uncertainty(8, 32, 32), model.uncertainty(2, 8, 32));
    const ScalingModel alone = fitted(truth, {1}, {16, 64}, 0.02, random);
    EXPECT_GT(alone.uncertainty(1, 4, 32), 0.3);
    EXPECT_GT(alone.uncertainty(1, 4, 32), 4 * alone.uncertainty(1, 1, 32));
  }
}

TEST(Uncertainty, ShrinksWithEachObservation) {
  std::mt19937_64 random(5);
  const ScalingModel truth = some_truth(random);
  std::vector<StepMeasurement> observations;
  double before = INFINITY;
  for (const int workers : {1, 4, 8, 16}) {
    observations.push_back(seen(truth, workers, 32, 0, random));
    const double now = fit_scaling_model(observations).uncertainty(4, 16, 32);
    EXPECT_LT(now, before) << workers;
    before = now;
  }
}

TEST(Uncertainty, AModelThatDoesNotFitSaysSo) {
  std::mt19937_64 random(9);
  const ScalingModel truth = some_truth(random);
  const double exact = fitted(truth, {1, 2, 4, 8}, {16, 64}, 0, random).uncertainty(1, 4, 32);
  const double coarse = fitted(truth, {1, 2, 4, 8}, {16, 64}, 0.3, random).uncertainty(1, 4, 32);
  EXPECT_GT(coarse, 2 * exact);
}

TEST(Uncertainty, NothingSeenIsInfinitelyUncertain) {
  EXPECT_EQ(fit_scaling_model({}).uncertainty(1, 1, 32), INFINITY);
}

}  // namespace
}  // namespace ffdl::cluster
