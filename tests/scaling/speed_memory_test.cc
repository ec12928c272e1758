#include "scaling/speed_memory.h"

#include <gtest/gtest.h>

namespace ffdl::scaling {
namespace {

using namespace std::chrono_literals;

Measurement measured(int workers, uint64_t samples, double seconds) {
  Measurement one;
  one.workers = workers;
  one.samples = samples;
  one.seconds = seconds;
  one.steps = 10;
  return one;
}

TEST(SpeedMemory, KnowsEachSizeThatTheJobHasHad) {
  SpeedMemory memory;
  memory.add(measured(2, 400, 2), WallTime(100s));
  memory.add(measured(1, 100, 1), WallTime(110s));
  memory.add(measured(2, 400, 4), WallTime(120s));  // half as fast as before
  memory.add(measured(2, 400, 0), WallTime(130s));  // has no effect
  const auto speeds = memory.speeds(WallTime(130s));
  const std::vector<StepMeasurement> expected = {
      {.workers = 1, .batch = 10, .steps = 10, .step_s = 0.1, .age = 20s},
      {.workers = 2, .batch = 40, .steps = 10, .step_s = 40.0 / 150, .age = 10s}};
  EXPECT_EQ(speeds, expected);
  EXPECT_DOUBLE_EQ(speeds[1].samples_per_s(), 150);
  EXPECT_EQ(memory.speeds(WallTime(0s))[0].age, 0s);  // the clock was set back
}

TEST(Observe, IsWhatAPolicySees) {
  SpeedMemory memory;
  Measurement one = measured(2, 400, 2);
  one.step = 50;
  one.communication_share = 0.25;
  one.metrics = {{"queue", {3, 1}}};
  memory.add(one, WallTime(1s));
  const Observation seen = observe(one, memory, WallTime(2s));
  EXPECT_EQ(seen.at, WallTime(2s));
  EXPECT_EQ(seen.workers, 2);
  EXPECT_EQ(seen.step, 50U);
  EXPECT_EQ(seen.step_s, 0.2);
  EXPECT_EQ(seen.samples_per_s, 200);
  EXPECT_EQ(seen.communication_share, 0.25);
  EXPECT_EQ(seen.metrics, one.metrics);
  EXPECT_EQ(seen.speeds, memory.speeds(WallTime(2s)));
  EXPECT_FALSE(seen.idle_workers);
}

}  // namespace
}  // namespace ffdl::scaling
