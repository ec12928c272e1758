#include "benchmarks/rescale/pause.h"

#include <gtest/gtest.h>

#include <vector>

namespace ffdl::bench {
namespace {

using std::chrono::milliseconds;

constexpr PauseRule kRule = {.undisturbed = 4, .after = 2};

// Makes one step per millisecond. Each step has its seconds in the session.
struct Training {
  std::vector<StepTime> steps;

  Training& world(uint64_t generation, int members, const std::vector<double>& seconds) {
    for (const double s : seconds) {
      steps.push_back({Time(milliseconds(steps.size())), s, generation, members});
    }
    return *this;
  }
};

TEST(Pause, IsWhatExceedsTheNormalStepsOfEachWorld) {
  Training run;
  run.world(1, 1, {9, 1, 1, 1, 1, /* the request */ 1, 1.5}).world(2, 2, {2.25, 2, 2, 2, 2, 2});
  const auto pause = pause_after(run.steps, Time(milliseconds(5)), kRule);
  ASSERT_TRUE(pause);
  EXPECT_DOUBLE_EQ(pause->stop_ms, 500);
  EXPECT_DOUBLE_EQ(pause->total_ms, 750);
}

TEST(Pause, LooksAtTheLastWorldWhereSeveralCameAndGoesByTheirSize) {
  Training run;
  run.world(1, 2, {2, 2, 2, 2, 5}).world(2, 1, {1, 1.5}).world(3, 1, {1, 1, 1, 1, 1, 1});
  const auto pause = pause_after(run.steps, Time(milliseconds(4)), kRule);
  ASSERT_TRUE(pause);
  EXPECT_DOUBLE_EQ(pause->stop_ms, 3000);
  EXPECT_DOUBLE_EQ(pause->total_ms, 3500);
}

TEST(Pause, IsNotKnownFromTooFewSteps) {
  Training run;
  run.world(1, 1, {1, 1, 1, 1, 1}).world(2, 2, {2, 2, 2, 2, 2, 2});
  EXPECT_TRUE(pause_after(run.steps, Time(milliseconds(4)), kRule));
  EXPECT_FALSE(pause_after(run.steps, Time(milliseconds(3)), kRule)) << "three steps before";
  EXPECT_FALSE(pause_after(run.steps, Time(milliseconds(99)), kRule)) << "nothing after";
  EXPECT_FALSE(pause_after(run.steps, Time(milliseconds(6)), kRule)) << "no change after";
  run.steps.pop_back();
  EXPECT_FALSE(pause_after(run.steps, Time(milliseconds(4)), kRule)) << "three steps after";
}

TEST(Pause, OfNothingIsTheUnrestOfNormalSteps) {
  Training run;
  run.world(1, 1, {7, 1.5, 1, 1, 1});
  const auto pause = pause_of_nothing(run.steps, kRule);
  ASSERT_TRUE(pause);
  EXPECT_DOUBLE_EQ(pause->stop_ms, 500);
  EXPECT_DOUBLE_EQ(pause->total_ms, 500);
  EXPECT_FALSE(pause_of_nothing(std::span(run.steps).first(3), kRule));
}

}  // namespace
}  // namespace ffdl::bench
