#include <gtest/gtest.h>

#include "ffdl/cluster/autoscaler.h"
#include "ffdl/scaling/elastic_policy.h"
#include "launch/launch_records.h"
#include "scaling/scaling_records.h"
#include "scaling/steered_job.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::comes_true;

constexpr SteadyOptions kSwift{.cooldown = 0s, .confirmations = 1};

// Writes the records of a job, without processes.
class RecordedJob : public ::testing::Test {
 protected:
  RecordedJob() : store_(*open_store("mem://", system_runtime())) {}

  void run(int wanted, const std::vector<std::string>& phases) {
    NodeStatus node{.node = 0, .process = 1, .min_workers = 1, .max_workers = 4};
    for (size_t i = 0; i < phases.size(); ++i) {
      node.workers.push_back({"worker-" + std::to_string(i), phases[i], 1, 0});
    }
    const launch::Keys keys("j");
    EXPECT_OK(store_->put(keys.wanted(), std::to_string(wanted)));
    EXPECT_OK(store_->put(keys.node(0), launch::encode(node)));
  }
  void measure(int workers, double queue) {
    scaling::Measurement measured{.generation = 1, .workers = workers, .steps = 1, .seconds = 1};
    measured.metrics["queue_depth"] = {queue, 1};
    EXPECT_OK(store_->put(scaling::measured_key("j"), scaling::encode(measured)));
  }
  int wanted() {
    const auto run = read_run(*store_, "j");
    EXPECT_OK(run);
    return static_cast<int>(run->wanted_workers.size());
  }
  std::unique_ptr<PolicyFollower> follow(const std::string& log = "") {
    auto follower =
        PolicyFollower::start(*store_, system_runtime(), *policy_,
                              {.job = "j", .steady = kSwift, .interval = 0s, .log_file = log});
    EXPECT_OK(follower);
    return *std::move(follower);
  }

  const std::unique_ptr<Store> store_;
  const std::unique_ptr<ElasticPolicy> policy_ = *queue_policy(10);
  const TempFolder folder_;
};

TEST_F(RecordedJob, IsScaledAsThePolicySays) {
  run(2, {"running", "running", "idle", "idle"});
  measure(2, 99);  // from an earlier run
  const auto follower = follow();
  measure(2, 25);
  EXPECT_TRUE(comes_true([&] { return wanted() == 3; }));
  EXPECT_TRUE(comes_true([&] { return follower->changes() == 1; }));
  EXPECT_EQ(follower->decisions(), 1U);
}

TEST_F(RecordedJob, ItsOwnBoundsHoldToo) {
  run(2, {"running", "running", "idle", "idle"});
  const auto follower = follow();
  measure(2, 1000);
  EXPECT_TRUE(comes_true([&] { return wanted() == 4; }));
}

TEST_F(RecordedJob, NothingIsDecidedOnTheWayToAnotherSize) {
  run(3, {"running", "running", "running", "idle"});
  const std::string log = folder_.file("log");
  const auto follower = follow(log);
  measure(2, 5);  // two still train, and three are wanted
  measure(3, 35);
  EXPECT_TRUE(comes_true([&] { return follower->decisions() == 1; }));
  EXPECT_EQ(wanted(), 4);
  const auto trace = load_policy_trace(log);
  ASSERT_OK(trace);
  ASSERT_EQ(trace->size(), 1U);
  EXPECT_EQ((*trace)[0].workers, 3);
}

TEST_F(RecordedJob, WhatIsRefusedIsLoggedAndTriedAgain) {
  run(2, {"running", "running", "stopping", "idle"});
  const std::string log = folder_.file("log");
  const auto follower = follow(log);
  measure(2, 25);
  EXPECT_TRUE(comes_true([&] { return follower->decisions() == 1; }));
  EXPECT_EQ(wanted(), 2);
  EXPECT_EQ(follower->changes(), 0U);
  std::ifstream in(log);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  EXPECT_NE(text.find("\"refused\":\"scale job 'j': another change is under way"),
            std::string::npos)
      << text;
  run(2, {"running", "running", "idle", "idle"});
  measure(2, 25);
  EXPECT_TRUE(comes_true([&] { return wanted() == 3; }));
}

TEST_F(RecordedJob, IdleWorkersAreThoseOfferedAndNotUsed) {
  run(2, {"running", "running", "idle", "idle"});
  const auto idle = [&] {
    const auto count = count_idle_workers(*store_, "j");
    EXPECT_OK(count);
    return *count;
  };
  EXPECT_EQ(idle(), std::nullopt);
  ASSERT_OK(offer_workers(*store_, "node-1", 5));
  EXPECT_EQ(idle(), 3);
  ASSERT_OK(offer_workers(*store_, "node-1", 1));
  EXPECT_EQ(idle(), -1);
}

TEST_F(RecordedJob, RefusesWhatMakesNoSense) {
  const auto start = [&](const PolicyFollowerOptions& options) {
    return PolicyFollower::start(*store_, system_runtime(), *policy_, options).status().code();
  };
  EXPECT_EQ(start({.steady = {.min_workers = 0}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(start({.interval = -1s}), StatusCode::kInvalidArgument);
  EXPECT_EQ(start({.log_file = folder_.file("no/folder/log")}), StatusCode::kUnavailable);
}

// Runs real processes: the job grows and shrinks by the length of its own queue.
TEST(PolicyFollower, AJobFollowsItsPolicyWhileItTrains) {
  testing::SteeredJob job(3, 1);
  const auto policy = queue_policy(10);
  const std::string log = job.file("sizes.jsonl");
  auto follower =
      PolicyFollower::start(job.store(), system_runtime(), **policy,
                            {.job = "steered", .steady = kSwift, .interval = 0s, .log_file = log});
  ASSERT_OK(follower);
  job.write("queue", "25");
  EXPECT_TRUE(comes_true([&] { return job.has_world_of({"worker-0", "worker-1", "worker-2"}); }));
  job.write("queue", "5");
  EXPECT_TRUE(comes_true([&] { return job.has_world_of({"worker-0"}); }));
  follower->reset();
  EXPECT_OK(job.finish());
  // The written log is a trace. The policy makes the same decisions on it again.
  const auto trace = load_policy_trace(log);
  ASSERT_OK(trace);
  const auto replay =
      replay_policy(*trace, **policy, {.max_workers = 3, .cooldown = 0s, .confirmations = 1});
  ASSERT_OK(replay);
  EXPECT_EQ(replay->points.back().workers, 1);
  EXPECT_GE(replay->changes, 2U);
}

}  // namespace
}  // namespace ffdl
