#include "cluster/simulator/estimator.h"

#include <gtest/gtest.h>

namespace ffdl::cluster {
namespace {

const ScalingModel kModel{.compute_base_s = 0.1,
                          .compute_per_sample_s = 0.01,
                          .within_node = {0.1, 0},
                          .across_nodes = {0.5, 0}};

BatchQuestion question(PlanObjective objective, double noise) {
  return {{.global_min = 16, .global_max = 256, .local_min = 4, .local_max = 32},
          {1, noise},
          objective,
          std::nullopt};
}

TEST(BestConfiguration, ThroughputWantsTheLargestBatch) {
  const auto best = best_configuration(kModel, question(PlanObjective::kThroughput, 1), 1, 4);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->split.global(4), 256);
  EXPECT_DOUBLE_EQ(best->rate, 256 / kModel.step_s(1, 4, 32, 1));
}

TEST(BestConfiguration, GoodputWantsItOnlyWhereTheGradientIsNoisy) {
  const auto quiet = best_configuration(kModel, question(PlanObjective::kGoodput, 0), 1, 4);
  EXPECT_EQ(quiet->split.global(4), 16);
  EXPECT_DOUBLE_EQ(quiet->rate, 1 / kModel.step_s(1, 4, 4));
  const auto noisy = best_configuration(kModel, question(PlanObjective::kGoodput, 1e6), 1, 4);
  EXPECT_EQ(noisy->split.global(4), 256);
}

TEST(BestConfiguration, AFixedBatchIsNoChoice) {
  BatchQuestion fixed = question(PlanObjective::kGoodput, 1e6);
  fixed.fixed_batch = 64;
  EXPECT_EQ(best_configuration(kModel, fixed, 1, 4)->split, (BatchSplit{16, 0}));
  EXPECT_FALSE(best_configuration(kModel, fixed, 4, 32));  // two samples each: too few
}

TEST(SpeedEstimator, LearnsEachConfigurationOnce) {
  SpeedEstimator estimator;
  EXPECT_FALSE(estimator.knows_anything());
  estimator.observe({.batch = 32, .step_s = 0.4}, {1, 2});
  estimator.observe({.batch = 32, .step_s = 0.4}, {3, 4});
  EXPECT_EQ(estimator.version(), 1u);
  EXPECT_EQ(estimator.first_gradients(), (GradientStatistics{1, 2}));
  estimator.observe({.workers = 2, .batch = 64, .step_s = 0.5, .sync_s = 0.1}, {3, 4});
  EXPECT_EQ(estimator.version(), 2u);
  EXPECT_EQ(estimator.model().workers_seen, 2);
}

}  // namespace
}  // namespace ffdl::cluster
