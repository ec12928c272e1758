#include "support/slowness.h"

#include <gtest/gtest.h>

namespace ffdl::testing {
namespace {

using namespace std::chrono_literals;

TEST(Slowness, IsTheLargerOfBothRatiosWithinItsBounds) {
  const auto [work, turn] = kQuietMachine;
  const struct {
    MachineTimes times;
    double slowness;
  } kRows[] = {
      {{work, turn}, 1},         {{0ns, 0ns}, 1},           {{work / 2, turn / 2}, 1},
      {{2 * work, turn}, 2},     {{work, 5 * turn}, 5},     {{3 * work, 2 * turn}, 3},
      {{3 * work, 4 * turn}, 4}, {{work / 2, 2 * turn}, 2}, {{10 * work, 0ns}, 10},
      {{99 * work, turn}, 20},   {{work, 99 * turn}, 20},
  };
  for (const auto& [times, slowness] : kRows) {
    EXPECT_NEAR(slowness_of(times), slowness, 1e-3)
        << times.work.count() << " ns, " << times.turn.count() << " ns";
  }
}

TEST(Slowness, TakesNearlyTheLongestTurn) {
  EXPECT_EQ(nearly_longest({}), 0ns);
  EXPECT_EQ(nearly_longest({7ns}), 7ns);
  std::vector<Duration> times;
  for (int i = 300; i > 0; --i) times.push_back(i * 1us);
  EXPECT_EQ(nearly_longest(times), 298us);
}

TEST(Slowness, ScalesABound) {
  EXPECT_EQ(scaled(50ms, 1), 50ms);
  EXPECT_EQ(scaled(50ms, 2.5), 125ms);
}

TEST(Slowness, IsMeasured) {
  EXPECT_GT(measure_work(5ms), 0ns);
  EXPECT_GT(measure_turn(5ms), 0ns);
}

}  // namespace
}  // namespace ffdl::testing
