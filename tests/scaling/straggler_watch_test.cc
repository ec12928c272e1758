#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ffdl/tuning/stragglers.h"
#include "support/forwarding_runtime.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

World world_of(const std::vector<std::string>& ids) {
  World world;
  for (const std::string& id : ids) world.members.push_back({id, 1, ""});
  return world;
}

// Writes the members' records of a step in which each spent the given time on 8 samples.
class Steps {
 public:
  explicit Steps(StragglerWatch& watch) : watch_(watch) {}

  void make(const std::vector<double>& seconds) {
    std::vector<std::byte> records(seconds.size() * sizeof(double));
    std::memcpy(records.data(), seconds.data(), records.size());
    const std::vector<uint64_t> samples(seconds.size(), 8);
    watch_.applied(++step_, StepRecords(records, sizeof(double), sizeof(double), samples));
  }

 private:
  StragglerWatch& watch_;
  uint64_t step_ = 0;
};

TEST(StragglerWatch, TellsOfEachOnce) {
  std::vector<Straggler> told;
  StragglerOptions options;
  options.on_straggler = [&](const Straggler& straggler) { told.push_back(straggler); };
  ASSERT_OK_AND_ASSIGN(const auto watch, StragglerWatch::create(options));
  watch->world_changed(world_of({"a", "b", "c"}));
  Steps steps(*watch);
  for (int i = 0; i < 9; ++i) steps.make({1, 3, 1});
  EXPECT_TRUE(told.empty());
  for (int i = 0; i < 5; ++i) steps.make({1, 3, 1});
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].member.id, "b");
  EXPECT_EQ(told[0].step, 10U);
  EXPECT_EQ(told[0].steps, 10U);
  EXPECT_DOUBLE_EQ(told[0].factor, 3);
  ASSERT_EQ(watch->stragglers().size(), 1U);
  EXPECT_EQ(watch->stragglers()[0].steps, 14U);
  steps.make({1, 1, 1});
  EXPECT_TRUE(watch->stragglers().empty());
  for (int i = 0; i < 10; ++i) steps.make({1, 3, 1});
  EXPECT_EQ(told.size(), 2U);
}

TEST(StragglerWatch, AChangeOfTheWorldBeginsAnew) {
  ASSERT_OK_AND_ASSIGN(const auto watch, StragglerWatch::create());
  watch->world_changed(world_of({"a", "b"}));
  Steps steps(*watch);
  for (int i = 0; i < 9; ++i) steps.make({1, 3});
  watch->world_changed(world_of({"a", "b", "c"}));
  for (int i = 0; i < 9; ++i) steps.make({1, 3, 1});
  EXPECT_TRUE(watch->stragglers().empty());
  steps.make({1, 3, 1});
  EXPECT_EQ(watch->stragglers().size(), 1U);
}

// A clock that stands still until the test moves it.
class HandClock final : public testing::ForwardingRuntime {
 public:
  Time now() override { return now_; }
  uint64_t random() override { return 0; }
  void pass(Duration time) { now_ += time; }

 private:
  Time now_{};
};

TEST(StragglerWatch, SaysHowLongItComputed) {
  HandClock clock;
  ASSERT_OK_AND_ASSIGN(const auto watch, StragglerWatch::create({}, clock));
  const auto said = [&] {
    std::vector<std::byte> record(watch->record_bytes());
    watch->write_record(record);
    double seconds = 0;
    std::memcpy(&seconds, record.data(), sizeof seconds);
    return seconds;
  };
  clock.pass(5s);
  watch->world_changed(world_of({"a", "b"}));
  clock.pass(20ms);
  EXPECT_DOUBLE_EQ(said(), 0.02);
  clock.pass(3s);  // until the other members have arrived
  Steps(*watch).make({0.02, 3});
  clock.pass(40ms);
  EXPECT_DOUBLE_EQ(said(), 0.04);
}

TEST(StragglerWatch, RefusesWhatMakesNoSense) {
  StragglerOptions everybody;
  everybody.factor = 1;
  EXPECT_EQ(StragglerWatch::create(everybody).status().code(), StatusCode::kInvalidArgument);
  StragglerOptions at_once;
  at_once.steps = 0;
  EXPECT_EQ(StragglerWatch::create(at_once).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ffdl
