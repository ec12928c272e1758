#include <gtest/gtest.h>

#include "ffdl/scaling/elastic_policy.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

class PolicyFileTest : public ::testing::Test {
 protected:
  Result<LoadedPolicy> load(std::string_view text) {
    return load_policy(folder_.write("policy.yaml", text));
  }
  // Returns the error message for the text.
  std::string complaint(std::string_view text) {
    const auto loaded = load(text);
    EXPECT_EQ(loaded.status().code(), StatusCode::kInvalidArgument) << text;
    return std::string(loaded.status().message());
  }

  const TempFolder folder_;
};

TEST_F(PolicyFileTest, ReadsEachPolicy) {
  Observation seen;
  seen.workers = 2;
  seen.samples_per_s = 140;
  seen.speeds = {{.workers = 1, .batch = 100, .step_s = 1, .age = 30s}};
  seen.idle_workers = 3;
  seen.metrics = {{"queue_depth", {45, 1}}, {"mine", {128, 2}}};
  struct Case {
    const char* text;
    int workers;
  };
  const Case cases[] = {
      {"policy: efficiency", 1},
      {"{policy: efficiency, shrink_below: 0.1, grow_above: 0.3}", 3},
      {"{policy: efficiency, trusted_for_s: 20}", 3},
      {"{\"policy\": \"queue\", \"per_worker\": 10}", 5},
      {"{policy: queue, per_worker: 100, metric: mine}", 2},
      {"{policy: noise, samples_per_worker: 16, metric: mine}", 4},
      {"{policy: schedule, sizes: [{from: 8:00, workers: 3}, {from: \"18:30\", workers: 9}]}", 9},
      {"{policy: schedule, utc_offset_h: 8.5, sizes: [{from: 8:00, workers: 3}]}", 3},
      {"{policy: idle, keep_idle: 1}", 4},
  };
  for (const Case& one : cases) {
    const auto loaded = load(one.text);
    ASSERT_OK(loaded);
    EXPECT_EQ(loaded->policy->decide(seen).workers, one.workers) << one.text;
  }
}

TEST_F(PolicyFileTest, ReadsWhatThePolicyIsHeldTo) {
  const auto loaded = load(
      "policy: idle\nmin_workers: 2\nmax_workers: 7\ncooldown_s: 1.5\nconfirmations: 4\n"
      "tolerance: 0.25\nstep_max: 3\n");
  ASSERT_OK(loaded);
  const SteadyOptions& steady = loaded->steady;
  EXPECT_EQ(steady.min_workers, 2);
  EXPECT_EQ(steady.max_workers, 7);
  EXPECT_EQ(steady.cooldown, 1500ms);
  EXPECT_EQ(steady.confirmations, 4);
  EXPECT_EQ(steady.tolerance, 0.25);
  EXPECT_EQ(steady.step_max, 3);
}

TEST_F(PolicyFileTest, SaysWhereAndWhatIsWrong) {
  struct Case {
    const char* text;
    const char* says;
  };
  const Case cases[] = {
      {"", "line 1, column 1: no known policy; write 'policy:' and one of efficiency"},
      {"[1]", "no known policy"},
      {"policy: [1]", "no known policy"},
      {"policy: quick", "line 1, column 9: no known policy"},
      {"policy: idle\nper_worker: 3", "line 2, column 1: 'per_worker' is not known here"},
      {"policy: idle\nkeep_idle: some", "line 2, column 12: this does not fit 'keep_idle'"},
      {"policy: idle\nkeep_idle: 1.5", "this does not fit 'keep_idle'"},
      {"policy: idle\ncooldown_s: .nan", "this does not fit 'cooldown_s'"},
      {"policy: idle\ncooldown_s: 1e30", "this does not fit 'cooldown_s'"},
      {"policy: idle\ncooldown_s: -1", "cooldown -1 s"},
      {"policy: queue", "per_worker is 0"},
      {"policy: queue\nmetric: [a]", "this does not fit 'metric'"},
      {"policy: schedule", "0 sizes"},
      {"policy: schedule\nsizes: 3", "line 2, column 8: not a list"},
      {"policy: schedule\nsizes: [3]", "not a map"},
      {"policy: schedule\nsizes: [{from: 24:00, workers: 1}]", "this does not fit 'from'"},
      {"policy: schedule\nsizes: [{from: \"7:\", workers: 1}]", "this does not fit 'from'"},
      {"policy: schedule\nsizes: [{from: 7:5x, workers: 1}]", "this does not fit 'from'"},
      {"policy: schedule\nsizes: [{from: -1:00, workers: 1}]", "this does not fit 'from'"},
      {"policy: {", "correct the syntax"},
  };
  for (const Case& one : cases) {
    const std::string said = complaint(one.text);
    EXPECT_NE(said.find(one.says), std::string::npos) << one.text << "\n" << said;
    EXPECT_NE(said.find("policy.yaml"), std::string::npos) << said;
  }
  EXPECT_EQ(load_policy(folder_.file("none.yaml")).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace ffdl
