// Runs the program itself.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using nlohmann::json;

ProgramOutcome plan(const std::string& arguments) {
  return run_program(std::string(FFDL_PROGRAM) + " plan " + arguments);
}

class PlanCommand : public testing::Test {
 protected:
  PlanCommand() {
    folder_.write("tables/fast.csv", "global_batch_size,1,2,4\n64,1,1.8,3\n128,0.6,1.2,2.2\n");
    folder_.write("tables/slow.csv", "global_batch_size,1,2,4\n32,2,2.2,\n");
  }

  std::string tables() const { return "--throughputs " + folder_.path() + "/tables"; }

  TempFolder folder_;
};

TEST_F(PlanCommand, PrintsOneJsonDocument) {
  const auto outcome = plan(tables() + " --workers 5 --json");
  EXPECT_EQ(outcome.exit_code, 0);
  const json document = json::parse(outcome.out);
  EXPECT_NEAR(document["total"], 2.2 * 128 / (0.6 * 128) + 1, 1e-12);
  ASSERT_EQ(document["jobs"].size(), 2u);
  const json& fast = document["jobs"][0];
  EXPECT_EQ(fast["job"], "fast");
  EXPECT_EQ(fast["workers"], 4);
  EXPECT_EQ(fast["batch"], 128);
  EXPECT_NEAR(fast["scaling"], 2.2 / 0.6, 1e-12);
  EXPECT_EQ(fast["smaller"]["workers"], 2);
  EXPECT_TRUE(fast["larger"].is_null());
  EXPECT_EQ(document["jobs"][1]["larger"]["workers"], 2);
}

TEST_F(PlanCommand, HoldsJobsToTheirSmallestOrLargestBatch) {
  const json least = json::parse(plan(tables() + " --workers 5 --json --batch min").out);
  EXPECT_EQ(least["jobs"][0]["batch"], 64);
  EXPECT_NEAR(least["jobs"][0]["scaling"], 3, 1e-12);
  const json most = json::parse(plan(tables() + " --workers 5 --json --batch max").out);
  EXPECT_EQ(most["jobs"][0]["batch"], 128);
}

TEST_F(PlanCommand, PrintsATable) {
  const std::string file = folder_.write("jobs.yaml", "jobs: [{name: a, scaling: [1, 1.9]}]\n");
  const auto outcome = plan("--workers 3 --jobs " + file);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.out.find("total 1.9, 2 of 3 workers used"), std::string::npos) << outcome.out;
}

TEST_F(PlanCommand, TooFewWorkersIsAnAnswerAndAFailure) {
  const auto outcome = plan(tables() + " --workers 1 --json 2>/dev/null");
  EXPECT_EQ(outcome.exit_code, 1);
  const json document = json::parse(outcome.out);
  EXPECT_EQ(document["feasible"], false);
  EXPECT_EQ(document["reason"],
            "2 jobs need at least 2 workers together and there are 1; plan fewer jobs or let some "
            "wait");
}

TEST_F(PlanCommand, BadInputIsToldWithFileLineAndColumn) {
  const std::string file = folder_.write("tables/bad.csv", "global_batch_size,1,2\n64,1,-3\n");
  const auto outcome = plan(tables() + " --workers 8 2>&1");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(
      outcome.out,
      "ffdl: read '" + file +
          "': line 2, column 3 (2): -3 steps per second; leave it empty where not possible\n");
}

}  // namespace
}  // namespace ffdl
