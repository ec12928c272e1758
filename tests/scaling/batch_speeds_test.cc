#include "scaling/batch_speeds.h"

#include <gtest/gtest.h>

namespace ffdl::scaling {
namespace {

Measurement measured(int workers, uint64_t batch, uint64_t steps, double step_s) {
  Measurement one{.workers = workers, .steps = steps, .batch = batch};
  one.seconds = step_s * static_cast<double>(steps);
  return one;
}

TEST(BatchSpeeds, KeepsTheMeanOfEachSizeAndBatch) {
  BatchSpeeds speeds;
  speeds.add(measured(2, 64, 10, 0.1));
  speeds.add(measured(4, 64, 10, 0.5));
  speeds.add(measured(2, 128, 5, 0.25));
  speeds.add(measured(2, 64, 10, 0.3));
  ASSERT_EQ(speeds.all().size(), 3U);
  EXPECT_EQ(speeds.all()[0], (StepMeasurement{4, 1, 64, 10, 0.5}));
  EXPECT_EQ(speeds.all()[1], (StepMeasurement{2, 1, 128, 5, 0.25}));
  EXPECT_EQ(speeds.all()[2].steps, 20U);
  EXPECT_NEAR(speeds.all()[2].step_s, 0.2, 1e-12);
}

TEST(BatchSpeeds, OldStepsFade) {
  BatchSpeeds speeds;
  speeds.add(measured(1, 8, 1000, 5));
  speeds.add(measured(1, 8, 50, 1));
  EXPECT_NEAR(speeds.all()[0].step_s, 3, 1e-12) << "half of the last hundred";
  speeds.add(measured(1, 8, 200, 7));
  EXPECT_NEAR(speeds.all()[0].step_s, 7, 1e-12) << "all of them";
}

TEST(BatchSpeeds, WhatSaysNothingIsNotCounted) {
  BatchSpeeds speeds;
  speeds.add(measured(1, 0, 10, 1));  // of several batch sizes
  speeds.add(measured(1, 8, 0, 1));
  speeds.add(measured(1, 8, 10, 0));
  EXPECT_TRUE(speeds.all().empty());
}

TEST(BatchSpeeds, OthersTellWhatItHasNotMeasured) {
  BatchSpeeds speeds;
  speeds.add(measured(2, 64, 10, 0.1));
  speeds.learn(std::vector<StepMeasurement>{{1, 1, 64, 40, 0.5}, {2, 1, 64, 9, 9}});
  EXPECT_EQ(speeds.all(), (std::vector<StepMeasurement>{{1, 1, 64, 40, 0.5}, {2, 1, 64, 10, 0.1}}));
}

TEST(BatchSpeeds, RemembersTheSizesThatWereMeasuredLast) {
  BatchSpeeds speeds;
  std::vector<StepMeasurement> others;
  for (int k = 1; k <= 70; ++k) speeds.add(measured(k, 8, 10, 1));
  for (int k = 71; k <= 140; ++k) others.push_back({k, 1, 8, 10, 1});
  ASSERT_EQ(speeds.all().size(), 64U);
  EXPECT_EQ(speeds.all().front().workers, 7);
  speeds.learn(others);
  EXPECT_EQ(speeds.all().size(), 64U);
  EXPECT_EQ(speeds.all().front().workers, 7) << "its own are the latest";
}

}  // namespace
}  // namespace ffdl::scaling
