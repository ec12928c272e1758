#include "cluster/plan/profile_sizes.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ffdl::cluster {
namespace {

// Models a step of 10 ms and 1 ms per sample of computation, then 5 ms of exchange without overlap.
// The memory is 1 GB and 10 MB per sample.
double step_s(int workers, int64_t batch) {
  const double local = std::ceil(static_cast<double>(batch) / workers);
  return 0.01 + 0.001 * local + (workers > 1 ? 0.005 : 0);
}

FiledPoint point(int workers, int64_t batch) {
  const double step = step_s(workers, batch);
  return {{.workers = workers, .batch = batch, .step_s = step, .sync_s = workers > 1 ? 0.005 : 0},
          1'000'000'000 + 10'000'000 * ((batch + workers - 1) / workers)};
}

FiledProfile measured_net() {
  return {64, {point(1, 64), point(2, 64), point(4, 64), point(1, 16), point(2, 128)}};
}

TEST(ProfileSizes, MeasuredOnesAreAsTheyWere) {
  const auto sizes = sizes_of(measured_net(), {});
  ASSERT_EQ(sizes.size(), 4U);
  for (const int k : {1, 2, 4}) {
    const SizeOption& size = sizes[static_cast<size_t>(k) - 1];
    EXPECT_EQ(size.workers, k);
    EXPECT_EQ(size.batch, 64);
    EXPECT_NEAR(size.value, step_s(1, 64) / step_s(k, 64), 1e-12);
  }
}

TEST(ProfileSizes, OthersArePredictedWithTheirUncertainty) {
  const auto sizes = sizes_of(measured_net(), {.max_workers = 16});
  ASSERT_EQ(sizes.size(), 16U);
  EXPECT_NEAR(sizes[2].value, step_s(1, 64) / step_s(3, 64), 0.03);
  EXPECT_NEAR(sizes[15].value, step_s(1, 64) / step_s(16, 64), 0.6);
  EXPECT_LT(sizes[2].uncertainty, 0.1F);
  EXPECT_GT(sizes[15].uncertainty, sizes[2].uncertainty);
}

TEST(ProfileSizes, ABatchIsChosenWithinItsLimitsAndTheMemory) {
  const auto batch_of = [](const ProfileLimits& limits, size_t workers) {
    return sizes_of(measured_net(), limits)[workers - 1].batch;
  };
  EXPECT_EQ(batch_of({.max_batch = 512}, 1), 512);  // the largest step is the most efficient
  EXPECT_EQ(batch_of({.max_batch = 512, .device_memory = 3'000'000'000}, 4), 512);
  const int64_t fits = batch_of({.max_batch = 512, .device_memory = 3'000'000'000}, 1);
  EXPECT_LE(fits, 200);  // 1 GB, and 2 GB for samples
  EXPECT_GE(fits, 160);
  const auto many = sizes_of(measured_net(), {.device_memory = 1'100'000'000, .max_workers = 8});
  ASSERT_FALSE(many.empty());
  EXPECT_EQ(many[0].workers, 7);  // with 10 samples per worker
  EXPECT_DOUBLE_EQ(many[0].value, 7);
}

TEST(ProfileSizes, WhatDoesNotFitAtAllHasNoSizes) {
  EXPECT_TRUE(sizes_of(measured_net(), {.device_memory = 1}).empty());
}

}  // namespace
}  // namespace ffdl::cluster
