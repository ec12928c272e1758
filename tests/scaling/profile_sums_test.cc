#include "scaling/profile_sums.h"

#include <gtest/gtest.h>

namespace ffdl::scaling {
namespace {

TEST(ProfileSums, AddsMeasurementsOfItsSize) {
  ProfileSums sums(2, 20);
  Measurement one{.workers = 2, .steps = 10, .seconds = 1, .samples = 640};
  one.communication_share = 0.5;
  one.host_memory_bytes = 100;
  Measurement cold = one;
  cold.seconds = 1000;
  sums.add(cold);  // the first step is left out
  Measurement other = one;
  other.workers = 3;
  sums.add(other);
  sums.add(one);
  EXPECT_FALSE(sums.is_done());
  one.seconds = 3;
  one.communication_share = 0.1;
  one.host_memory_bytes = 50;
  sums.add(one);
  EXPECT_TRUE(sums.is_done());
  const ProfilePoint point = sums.point();
  EXPECT_EQ(point.step.workers, 2);
  EXPECT_EQ(point.step.batch, 64);
  EXPECT_EQ(point.step.steps, 20U);
  EXPECT_DOUBLE_EQ(point.step.step_s, 0.2);
  EXPECT_DOUBLE_EQ(point.communication_share(), (0.5 * 1 + 0.1 * 3) / 4);
  EXPECT_DOUBLE_EQ(point.step.samples_per_s(), 320);
  EXPECT_EQ(point.host_memory_bytes, 100U);
}

TEST(ProfileSums, WithoutMeasurementsThereIsNoSpeed) {
  const ProfilePoint point = ProfileSums(2, 1).point();
  EXPECT_EQ(point, (ProfilePoint{.step = {.workers = 2}}));
}

}  // namespace
}  // namespace ffdl::scaling
