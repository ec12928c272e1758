#include <gtest/gtest.h>

#include <limits>

#include "ffdl/scaling/elastic_policy.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

using Made = Result<std::unique_ptr<ElasticPolicy>>;

SizeDecision decide(const Made& policy, const Observation& seen) {
  EXPECT_OK(policy);
  return (*policy)->decide(seen);
}

// The speed at a size.
struct Known {
  int workers = 0;
  int64_t samples_per_s = 0;
  Duration age{};

  bool operator==(const Known&) const = default;
};

Observation at(int workers, double samples_per_s, const std::vector<Known>& speeds = {}) {
  Observation seen;
  seen.workers = workers;
  seen.samples_per_s = samples_per_s;
  for (const Known& one : speeds) {
    seen.speeds.push_back(
        {.workers = one.workers, .batch = one.samples_per_s, .step_s = 1, .age = one.age});
  }
  return seen;
}

Observation with(int workers, const std::string& metric, MetricValue value) {
  Observation seen;
  seen.workers = workers;
  seen.metrics[metric] = value;
  return seen;
}

TEST(EfficiencyPolicy, GoesToWhatIsWorthIt) {
  struct Case {
    const char* what;
    Observation seen;
    int workers;
  };
  const Case cases[] = {
      {"no speed: stays", at(2, 0), 2},
      {"nothing known beside it: tries one more", at(2, 200, {{2, 200}}), 3},
      {"the last worker was worth 0.9: tries one more", at(2, 190, {{1, 100}}), 3},
      {"0.6: neither small enough to go nor large enough to grow", at(2, 160, {{1, 100}}), 2},
      {"0.4: goes", at(2, 140, {{1, 100}}), 1},
      {"slower than without: goes", at(2, 90, {{1, 100}}), 1},
      {"two at once, 0.4 each", at(3, 180, {{1, 100}}), 1},
      {"the next was worth 0.5 of one: stays", at(2, 200, {{1, 100}, {3, 250}}), 2},
      {"the next is worth 0.8: goes there", at(2, 200, {{1, 100}, {3, 280}}), 3},
      {"the nearest larger one counts", at(1, 100, {{2, 190}, {4, 100}}), 2},
      {"what is old is not known", at(2, 200, {{1, 100}, {3, 210, 11min}}), 3},
      {"nor is a speed of nothing", at(2, 200, {{1, 100}, {3, 0}}), 3},
  };
  for (const Case& one : cases) {
    const SizeDecision decision = decide(efficiency_policy(), one.seen);
    EXPECT_EQ(decision.workers, one.workers) << one.what << ": " << decision.reason;
    EXPECT_FALSE(decision.reason.empty()) << one.what;
  }
}

TEST(EfficiencyPolicy, RestsWhereTheSpeedEndsToGrow) {
  // The speeds favour three workers, and every size is tried from one worker on.
  const int speed[] = {0, 100, 195, 280, 300, 305};
  std::vector<Known> known;
  int workers = 1;
  std::vector<int> sizes;
  for (int i = 0; i < 12; ++i) {
    const Known here = {workers, speed[workers]};
    if (std::find(known.begin(), known.end(), here) == known.end()) known.push_back(here);
    workers = decide(efficiency_policy(), at(workers, speed[workers], known)).workers;
    sizes.push_back(workers);
  }
  EXPECT_EQ(sizes, (std::vector<int>{2, 3, 4, 3, 3, 3, 3, 3, 3, 3, 3, 3}));
}

TEST(QueuePolicy, HasAWorkerForEachPartOfTheQueue) {
  const Made policy = queue_policy(10);
  struct Case {
    MetricValue value;
    int workers;
  };
  const Case cases[] = {
      {{0, 1}, 0},  {{1, 1}, 1},    {{10, 2}, 1}, {{11, 2}, 2}, {{1e300, 1}, INT32_MAX},
      {{-5, 1}, 0}, {{kNaN, 1}, 4}, {{50, 0}, 4}};
  for (const Case& one : cases) {
    EXPECT_EQ(decide(policy, with(4, "queue_depth", one.value)).workers, one.workers)
        << one.value.sum;
  }
  EXPECT_EQ(decide(policy, with(4, "other", {50, 1})).workers, 4);
  EXPECT_EQ(decide(queue_policy(10, "other"), with(4, "other", {50, 1})).workers, 5);
}

TEST(NoisePolicy, HasTheBatchThatIsOfUse) {
  const Made policy = noise_policy(32);
  EXPECT_EQ(decide(policy, with(2, "noise_scale", {2 * 100, 2})).workers, 3);
  EXPECT_EQ(decide(policy, with(2, "noise_scale", {2 * 10, 2})).workers, 1);
  EXPECT_EQ(decide(policy, with(2, "noise_scale", {kNaN, 2})).workers, 2);
  EXPECT_EQ(decide(policy, with(2, "queue_depth", {100, 1})).workers, 2);
}

TEST(SchedulePolicy, GoesByTheTimeOfTheDay) {
  const std::vector<std::pair<Duration, int>> sizes = {{18h, 8}, {7h + 30min, 2}};
  const Made utc = schedule_policy(sizes), east = schedule_policy(sizes, 2h),
             west = schedule_policy(sizes, -8h);
  const auto size = [&](const Made& policy, Duration of_day, int day = 20000) {
    return decide(policy, {.at = WallTime(day * 24h + of_day)}).workers;
  };
  EXPECT_EQ(size(utc, 0h), 8);
  EXPECT_EQ(size(utc, 7h + 29min), 8);
  EXPECT_EQ(size(utc, 7h + 30min), 2);
  EXPECT_EQ(size(utc, 17h + 59min), 2);
  EXPECT_EQ(size(utc, 18h), 8);
  EXPECT_EQ(size(utc, 8h, -3), 2);  // before 1970
  EXPECT_EQ(size(east, 5h + 29min), 8);
  EXPECT_EQ(size(east, 5h + 30min), 2);
  EXPECT_EQ(size(east, 23h), 8);
  EXPECT_EQ(size(west, 2h), 8);
  EXPECT_EQ(size(west, 1h), 2);
}

TEST(IdlePolicy, TakesWhatNobodyUses) {
  Observation seen = at(2, 0);
  EXPECT_EQ(decide(idle_policy(), seen).workers, 2);  // unknown
  seen.idle_workers = 3;
  EXPECT_EQ(decide(idle_policy(), seen).workers, 5);
  EXPECT_EQ(decide(idle_policy(1), seen).workers, 4);
  seen.idle_workers = -1;
  EXPECT_EQ(decide(idle_policy(), seen).workers, 1);
  seen.idle_workers = -9;
  EXPECT_EQ(decide(idle_policy(), seen).workers, 0);
}

TEST(Policies, RefuseWhatMakesNoSense) {
  const auto refused = [](const Made& policy) {
    return policy.status().code() == StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused(efficiency_policy(0.4, 0.5)));
  EXPECT_TRUE(refused(efficiency_policy(kNaN)));
  EXPECT_TRUE(refused(efficiency_policy(0.7, 0.5, 0s)));
  EXPECT_TRUE(refused(queue_policy(0)));
  EXPECT_TRUE(refused(queue_policy(1, "")));
  EXPECT_TRUE(refused(noise_policy(-1)));
  EXPECT_TRUE(refused(schedule_policy({})));
  EXPECT_TRUE(refused(schedule_policy({{24h, 1}})));
  EXPECT_TRUE(refused(schedule_policy({{1h, 1}}, 24h)));
  EXPECT_TRUE(refused(idle_policy(-1)));
}

}  // namespace
}  // namespace ffdl
