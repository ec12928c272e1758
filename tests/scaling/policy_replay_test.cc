#include <gtest/gtest.h>

#include "ffdl/scaling/elastic_policy.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

// Returns a trace of a queue, one length every ten seconds, of a job of two workers.
std::vector<Observation> queue_of(const std::vector<double>& lengths) {
  std::vector<Observation> trace;
  for (const double length : lengths) {
    Observation& point = trace.emplace_back();
    point.at = WallTime(10s * static_cast<int>(trace.size()));
    point.workers = 2;
    point.metrics["queue_depth"] = {length, 1};
  }
  return trace;
}

std::vector<int> sizes_of(const PolicyReplay& replay) {
  std::vector<int> sizes;
  for (const ReplayPoint& point : replay.points) sizes.push_back(point.workers);
  return sizes;
}

constexpr SteadyOptions kAtOnce{.max_workers = 8, .cooldown = 0s, .confirmations = 1};

class PolicyReplayTest : public ::testing::Test {
 protected:
  PolicyReplayTest() : policy_(*queue_policy(10)) {}

  const std::unique_ptr<ElasticPolicy> policy_;
};

TEST_F(PolicyReplayTest, ReportsSizesOverTime) {
  const auto replay = replay_policy(queue_of({20, 40, 40, 10}), *policy_, kAtOnce);
  ASSERT_OK(replay);
  EXPECT_EQ(sizes_of(*replay), (std::vector<int>{2, 4, 4, 1}));
  EXPECT_EQ(replay->changes, 2U);
  EXPECT_EQ(replay->reversals, 1U);
  EXPECT_EQ(replay->oscillation(), 0.5);
  EXPECT_EQ(replay->seconds, 30);
  EXPECT_EQ(replay->worker_seconds, 2 * 10 + 4 * 20);
  EXPECT_EQ(replay->mean_workers(), 100.0 / 30);
  EXPECT_EQ(replay->points[1].at, WallTime(20s));
  EXPECT_EQ(replay->points[1].proposed, 4);
}

TEST_F(PolicyReplayTest, HysteresisTakesTheSwingOut) {
  const auto trace = queue_of({20, 40, 20, 40, 20, 40, 20, 40, 20, 40, 20, 40});
  const auto swings = replay_policy(trace, *policy_, kAtOnce);
  ASSERT_OK(swings);
  EXPECT_EQ(swings->changes, 11U);
  EXPECT_EQ(swings->reversals, 10U);
  SteadyOptions steady = kAtOnce;
  steady.confirmations = 2;
  const auto rests = replay_policy(trace, *policy_, steady);
  ASSERT_OK(rests);
  EXPECT_EQ(rests->changes, 0U);
  EXPECT_EQ(rests->oscillation(), 0);
  SteadyOptions cool = kAtOnce;
  cool.cooldown = 30s;
  const auto slow = replay_policy(trace, *policy_, cool);
  ASSERT_OK(slow);
  EXPECT_EQ(slow->changes, 4U);
}

TEST_F(PolicyReplayTest, AReversalIsOneWithinTheWindow) {
  const auto trace = queue_of({20, 40, 40, 40, 20});
  const auto reversals = [&](Duration window) {
    const auto replay = replay_policy(trace, *policy_, kAtOnce, std::nullopt, window);
    EXPECT_OK(replay);
    return replay->reversals;
  };
  EXPECT_EQ(reversals(30s), 1U);
  EXPECT_EQ(reversals(29s), 0U);
  // Two changes in one direction are no reversal.
  EXPECT_EQ(replay_policy(queue_of({20, 40, 60, 80}), *policy_, kAtOnce)->reversals, 0U);
}

TEST_F(PolicyReplayTest, BeginsWithTheSizeThatItIsTold) {
  const auto replay = replay_policy(queue_of({20}), *policy_, {}, 5);
  ASSERT_OK(replay);
  EXPECT_EQ(sizes_of(*replay), (std::vector<int>{5}));  // seen once, but two times are required
}

TEST(PolicyReplay, SeesTheSpeedOfItsOwnSize) {
  const double speed[] = {0, 100, 190, 200};
  std::vector<Observation> trace;
  for (const int workers : {1, 2, 3, 3, 3, 3}) {
    Observation& point = trace.emplace_back();
    point.at = WallTime(1s * static_cast<int>(trace.size()));
    point.workers = workers;
    point.samples_per_s = speed[workers];
  }
  const auto policy = efficiency_policy();
  const auto replay = replay_policy(trace, **policy, kAtOnce);
  ASSERT_OK(replay);
  EXPECT_EQ(sizes_of(*replay), (std::vector<int>{2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(replay->unmeasured, 0U);
  // Speeds outside the trace are unknown, so the job keeps its size.
  const auto beyond = replay_policy(trace, **policy, kAtOnce, 4);
  ASSERT_OK(beyond);
  EXPECT_EQ(sizes_of(*beyond), (std::vector<int>{4, 4, 4, 4, 4, 4}));
  EXPECT_EQ(beyond->unmeasured, 6U);
}

TEST(PolicyReplay, WhatItHasMoreIsIdleNoMore) {
  std::vector<Observation> trace;
  for (int i = 0; i < 3; ++i) {
    Observation& point = trace.emplace_back();
    point.at = WallTime(1s * i);
    point.workers = 2;
    point.idle_workers = 3;
  }
  const auto replay = replay_policy(trace, **idle_policy(), kAtOnce);
  ASSERT_OK(replay);
  EXPECT_EQ(sizes_of(*replay), (std::vector<int>{5, 5, 5}));
}

TEST(PolicyReplay, RefusesWhatMakesNoSense) {
  const auto policy = idle_policy();
  EXPECT_EQ(replay_policy({}, **policy, {}).status().code(), StatusCode::kInvalidArgument);
  const auto trace = queue_of({1});
  EXPECT_EQ(replay_policy(trace, **policy, {}, 0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(replay_policy(trace, **policy, {}, std::nullopt, -1s).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(replay_policy(trace, **policy, {.min_workers = 0}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(PolicyTrace, IsReadLineByLine) {
  const TempFolder folder;
  const std::string good = "{\"t_s\": 1, \"workers\": 2}\n\n{\"event\": \"other\"}\n";
  const auto trace = load_policy_trace(folder.write("good", good + "{\"t_s\": 2, \"wor"));
  ASSERT_OK(trace);
  ASSERT_EQ(trace->size(), 1U);
  EXPECT_EQ((*trace)[0].at, WallTime(1s));
  EXPECT_EQ((*trace)[0].workers, 2);

  const auto refused = [&](const std::string& text) {
    const auto read = load_policy_trace(folder.write("bad", text));
    EXPECT_EQ(read.status().code(), StatusCode::kInvalidArgument) << text;
    return std::string(read.status().message());
  };
  EXPECT_NE(refused(good + "what\n").find("line 4"), std::string::npos);
  EXPECT_NE(refused(good + "{\"t_s\": 0.5, \"workers\": 2}\n").find("earlier"), std::string::npos);
  EXPECT_NE(refused("{\"event\": \"other\"}\n").find("no observation"), std::string::npos);
  EXPECT_EQ(load_policy_trace(folder.file("none")).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace ffdl
