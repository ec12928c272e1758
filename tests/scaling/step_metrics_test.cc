#include "ffdl/tuning/step_metrics.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <vector>

#include "ffdl/cluster/autoscaler.h"
#include "scaling/measurement.h"
#include "scaling/scaling_records.h"
#include "support/forwarding_runtime.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using scaling::Measurement;
using scaling::read_measurement;
using scaling::wait_measurement;

// Ignores deadlines, since the clock stands still.
class PatientEvent final : public Event {
 public:
  void set() override { inner_->set(); }
  void reset() override { inner_->reset(); }
  bool wait_until(Time) override { return inner_->wait_until(kNoDeadline); }

 private:
  const std::unique_ptr<Event> inner_ = system_runtime().make_event();
};

// A clock that stands still until the test moves it. The task of StepMetrics reads it too.
class Clock final : public testing::ForwardingRuntime {
 public:
  Time now() override { return Time(passed_.load()); }
  uint64_t random() override { return 0; }
  std::unique_ptr<Event> make_event() override { return std::make_unique<PatientEvent>(); }
  void pass(Duration time) { passed_ = passed_.load() + time; }

 private:
  std::atomic<Duration> passed_{};
};

class StepMetricsTest : public ::testing::Test {
 protected:
  StepMetricsTest() : store_(*open_store("mem://", system_runtime())) {}

  std::unique_ptr<StepMetrics> meter(const StepMetricsOptions& options) {
    auto made = StepMetrics::create(*store_, options, clock_);
    EXPECT_OK(made);
    return *std::move(made);
  }
  static World world_of(int members, int rank) {
    World world;
    world.generation = 3;
    world.rank = rank;
    for (int i = 0; i < members; ++i) world.members.push_back({"m" + std::to_string(i), 1, ""});
    return world;
  }
  // Runs a step of a world of this member alone: computes, waits for others, applies.
  void step(StepMetrics& meter, Duration compute, Duration communicate, Duration apply) {
    clock_.pass(compute);
    std::vector<std::byte> record(meter.record_bytes());
    meter.write_record(record);
    clock_.pass(communicate);
    meter.averaged();
    clock_.pass(apply);
    const std::vector<uint64_t> samples = {samples_};
    meter.applied(++steps_, StepRecords(record, record.size(), record.size(), samples));
  }

  // Returns the speeds in the job's record once it has `count` sizes. It trains meanwhile in steps
  // of 4 s, since a lease may end on a slow machine.
  std::vector<StepMeasurement> speeds_of(StepMetrics& meter, size_t count) {
    const auto never = system_runtime().make_event();
    while (true) {
      const auto read = read_speeds(*store_, "a");
      if (read.ok() && read->size() == count) return *read;
      for (int i = 0; i < 2; ++i) step(meter, 3s, 1s, 0s);
      never->wait_until(deadline_in(5ms));
    }
  }

  const std::unique_ptr<Store> store_;
  Clock clock_;
  uint64_t steps_ = 0;
  uint64_t samples_ = 16;
};

TEST_F(StepMetricsTest, RankZeroTellsWhatStepsWereLike) {
  double queue = 7;
  const auto one = meter({.job = "a", .steps = 2, .metrics = {{"queue", [&] { return queue; }}}});
  one->world_changed(world_of(1, 0));
  step(*one, 1s, 100s, 1s);  // the first step of a world is left out
  step(*one, 6s, 3s, 1s);
  queue = 9;
  step(*one, 6s, 5s, 1s);  // the wait of this step is reported in the next one
  const auto first = wait_measurement(*store_, "a", 0, deadline_in(60s));
  ASSERT_OK(first);
  const Measurement& measured = *first;
  EXPECT_EQ(measured.generation, 3U);
  EXPECT_EQ(measured.workers, 1);
  EXPECT_EQ(measured.step, 3U);
  EXPECT_EQ(measured.steps, 2U);
  EXPECT_DOUBLE_EQ(measured.seconds, 22);
  EXPECT_EQ(measured.samples, 32U);
  EXPECT_EQ(measured.batch, 16U);
  EXPECT_DOUBLE_EQ(measured.communication_share, 3.0 / 11);
  EXPECT_GT(measured.host_memory_bytes, 1U << 20);
  EXPECT_EQ(measured.metrics, (std::map<std::string, MetricValue>{{"queue", {8, 1}}}));
  queue = std::numeric_limits<double>::quiet_NaN();
  step(*one, 1s, 1s, 0s);
  step(*one, 1s, 1s, 0s);
  const auto second = wait_measurement(*store_, "a", first->revision, deadline_in(60s));
  ASSERT_OK(second);
  EXPECT_EQ(second->step, 5U);
  EXPECT_TRUE(second->metrics.empty());
}

TEST_F(StepMetricsTest, TellsHowFastEachSizeHasBeenUntilTheJobEnds) {
  // Written by the member that was rank 0 before.
  ASSERT_OK(
      publish_speeds(*store_, "a", std::vector<StepMeasurement>{{2, 1, 16, 40, 9}}, kNoLease));
  {
    const auto one = meter({.job = "a", .steps = 2});
    one->world_changed(world_of(1, 0));
    step(*one, 100s, 0s, 0s);
    const auto speeds = speeds_of(*one, 2);
    EXPECT_EQ(speeds[0], (StepMeasurement{2, 1, 16, 40, 9}));
    EXPECT_EQ(speeds[1], (StepMeasurement{1, 1, 16, speeds[1].steps, 4.0}));
    EXPECT_GE(speeds[1].steps, 2U);
    samples_ = 24;
    EXPECT_EQ(speeds_of(*one, 3)[2].batch, 24);
  }
  EXPECT_EQ(read_speeds(*store_, "a").status().code(), StatusCode::kNotFound);
  EXPECT_OK(read_measurement(*store_, "a"));
}

TEST_F(StepMetricsTest, OthersAndUnfinishedMeasurementsTellNothing) {
  const auto one = meter({.job = "a", .steps = 2});
  one->world_changed(world_of(2, 1));
  for (int i = 0; i < 5; ++i) step(*one, 1s, 1s, 1s);
  const auto two = meter({.job = "b", .steps = 2});
  two->world_changed(world_of(1, 0));
  for (int i = 0; i < 2; ++i) step(*two, 1s, 1s, 1s);
  two->world_changed(world_of(1, 0));
  for (int i = 0; i < 2; ++i) step(*two, 1s, 1s, 1s);
  EXPECT_EQ(read_measurement(*store_, "a").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(read_measurement(*store_, "b").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(one->save().empty());
}

TEST_F(StepMetricsTest, AnotherJobsMeasurementIsNotWaitedFor) {
  ASSERT_OK(store_->put(scaling::measured_key("ab"), scaling::encode(Measurement{.workers = 1})));
  EXPECT_EQ(wait_measurement(*store_, "a", 0, deadline_in(1ms)).status().code(),
            StatusCode::kTimeout);
  ASSERT_OK(store_->put(scaling::measured_key("a"), "what"));
  EXPECT_EQ(wait_measurement(*store_, "a", 0, deadline_in(60s)).status().code(),
            StatusCode::kCorrupt);
}

TEST_F(StepMetricsTest, RefusesWhatMakesNoSense) {
  for (const StepMetricsOptions& options :
       {StepMetricsOptions{.steps = 0}, StepMetricsOptions{.metrics = {{"", [] { return 1.0; }}}},
        StepMetricsOptions{.metrics = {{"a", {}}}}}) {
    EXPECT_EQ(StepMetrics::create(*store_, options).status().code(), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace ffdl
