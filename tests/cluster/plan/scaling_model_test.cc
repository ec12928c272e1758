#include "cluster/plan/scaling_model.h"

#include <gtest/gtest.h>

#include <vector>

namespace ffdl {
namespace {

const ScalingModel kTruth{.compute_base_s = 0.02,
                          .compute_per_sample_s = 0.001,
                          .within_node = {0.01, 0.002},
                          .across_nodes = {0.05, 0.003},
                          .overlap = 2};

StepMeasurement seen(const ScalingModel& model, int nodes, int workers, int64_t local_batch) {
  const double step = model.step_s(nodes, workers, local_batch);
  return {.workers = workers,
          .nodes = nodes,
          .batch = local_batch * workers,
          .step_s = step,
          .sync_s = step - model.step_s(1, 1, local_batch)};
}

TEST(ScalingModel, RecoversWhatItWasMeasuredFrom) {
  std::vector<StepMeasurement> observations;
  for (const int64_t batch : {16, 32, 64}) {
    for (const int workers : {1, 2, 3, 4}) observations.push_back(seen(kTruth, 1, workers, batch));
    for (const int workers : {8, 12, 16}) {
      observations.push_back(seen(kTruth, workers / 4, workers, batch));
    }
  }
  const ScalingModel model = fit_scaling_model(observations);
  EXPECT_LT(model.relative_error, 0.01);
  EXPECT_EQ(model.workers_seen, 16);
  for (const int workers : {2, 4, 6, 24}) {
    const int nodes = (workers + 3) / 4;
    const double truth = kTruth.step_s(nodes, workers, 48);
    EXPECT_NEAR(model.step_s(nodes, workers, 48), truth, 0.01 * truth) << workers;
  }
}

TEST(ScalingModel, AssumesTheBestOfWhatItHasNotSeen) {
  const ScalingModel model = fit_scaling_model(std::vector{seen(kTruth, 1, 1, 32)});
  EXPECT_NEAR(model.step_s(1, 1, 32), 0.052, 1e-9);
  EXPECT_NEAR(model.step_s(1, 1, 64), 0.078,
              1e-9);  // half of the time is in proportion to the batch
  EXPECT_NEAR(model.step_s(4, 16, 32), 0.052, 1e-9);  // a link without measurements costs nothing
  EXPECT_NEAR(model.step_s(1, 1, 32, 3), 4 * 0.052, 1e-9);

  const ScalingModel two =
      fit_scaling_model(std::vector{seen(kTruth, 1, 1, 32), seen(kTruth, 1, 2, 32)});
  EXPECT_NEAR(two.across_nodes.base_s, 1.1 * two.within_node.base_s, 1e-12);
  EXPECT_GT(two.step_s(2, 2, 32), two.step_s(1, 2, 32));
}

TEST(ScalingModel, NothingSeenIsAModelOfZeros) {
  EXPECT_EQ(fit_scaling_model({}).step_s(1, 1, 32), 0);
}

TEST(ScalingModel, NeverSaysThatMoreWorkIsFaster) {
  // The measurements contradict each other: the larger batch was faster, and more workers waited
  // less.
  const ScalingModel model =
      fit_scaling_model(std::vector<StepMeasurement>{{1, 1, 32, 1, 0.09, 0},
                                                     {1, 1, 64, 1, 0.05, 0},
                                                     {2, 1, 64, 1, 0.2, 0.1},
                                                     {4, 1, 128, 1, 0.1, 0.01}});
  EXPECT_GE(model.step_s(1, 1, 64), model.step_s(1, 1, 32));
  EXPECT_GE(model.step_s(1, 4, 32), model.step_s(1, 2, 32));
  EXPECT_GT(model.relative_error, 0.1);
}

TEST(StatisticalEfficiency, FallsFromOneAsTheBatchGrows) {
  EXPECT_DOUBLE_EQ(statistical_efficiency(10, 128, 128), 1);
  EXPECT_DOUBLE_EQ(statistical_efficiency(10, 128, 256), 11.0 / 12);
  EXPECT_DOUBLE_EQ(statistical_efficiency(0, 128, 1280),
                   0.1);  // no noise, so larger batches gain nothing
  EXPECT_NEAR(statistical_efficiency(1e12, 128, 1280), 1, 1e-9);
}

}  // namespace
}  // namespace ffdl
