// Runs the program itself.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/programs.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using nlohmann::json;

ProgramOutcome plan(const std::string& arguments) {
  return run_program(std::string(kFfdlProgram) + " plan " + arguments);
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

TEST_F(PlanCommand, NamesTheBatchesThatThereAre) {
  const auto help = plan("--help");
  EXPECT_NE(help.out.find("{dynamic,max,min}"), std::string::npos) << help.out;
  EXPECT_EQ(help.out.find("ffdl report"), std::string::npos) << help.out;
  const auto outcome = plan(tables() + " --workers 5 --batch large 2>&1");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.out.find("--batch: is 'large'; use one of dynamic, max, min"),
            std::string::npos)
      << outcome.out;
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

TEST_F(PlanCommand, MoreLeastSizesThanWorkersAreToldWithTheirPlace) {
  EXPECT_EQ(plan(tables() + " --workers 1 2>&1").out,
            "ffdl: plan '" + folder_.path() +
                "/tables/slow.csv': line 1, column 2: job 'slow' does not fit: 2 jobs need at "
                "least 2 workers together and there are 1; plan fewer jobs or let some wait\n");
  const std::string file = folder_.write(
      "jobs.yaml", "jobs:\n  - {name: a, scaling: [1, 2]}\n  - {name: b, scaling: [1]}\n");
  EXPECT_EQ(plan("--workers 1 --jobs " + file + " 2>&1").out,
            "ffdl: plan '" + file +
                "': line 3, column 5: job 'b' does not fit: 2 jobs need at least 2 workers "
                "together and there are 1; plan fewer jobs or let some wait\n");
}

TEST_F(PlanCommand, PlacesWorkersOnNodes) {
  const std::string file = folder_.write("jobs.yaml",
                                         "jobs:\n"
                                         "  - name: a\n"
                                         "    sizes: [{workers: 2, scaling: 1.9, nodes_max: 1},\n"
                                         "            {workers: 2, scaling: 1.5}]\n"
                                         "  - {name: b, scaling: [1, 1.6, 2]}\n");
  const auto outcome = plan("--nodes 2 --gpus-per-node 2 --json --jobs " + file);
  ASSERT_EQ(outcome.exit_code, 0);
  const json document = json::parse(outcome.out);
  EXPECT_EQ(document["is_best"], true);
  EXPECT_EQ(document["total"], 1.9 + 1.6);
  EXPECT_EQ(document["workers_used"], 4);
  EXPECT_EQ(document["jobs"][0]["nodes"], json::parse(R"([{"node": 0, "workers": 2}])"));
  EXPECT_NE(plan("--nodes 2 --jobs " + file).out.find("no plan is better"), std::string::npos);
  EXPECT_EQ(
      plan("--workers 4 --jobs " + file + " 2>&1").out,
      "ffdl: plan '" + file +
          "': line 2, column 5: job 'a' limits the nodes of its workers; give --nodes instead "
          "of --workers\n");
}

TEST_F(PlanCommand, PlansByWhatWasMeasured) {
  const std::string profile = folder_.write(
      "net.json",
      R"({"format": "ffdl-profile-1", "job": "net", "global_batch": 64, "machine": {}, "points": [
        {"workers": 1, "batch": 64, "steps": 9, "step_s": 0.08, "communication_share": 0},
        {"workers": 2, "batch": 64, "steps": 9, "step_s": 0.05, "communication_share": 0.2}]})");
  const json alone = json::parse(plan("--workers 2 --json --jobs " + profile).out);
  EXPECT_EQ(alone["jobs"][0]["job"], "net");
  EXPECT_NEAR(alone["jobs"][0]["scaling"], 1.6, 1e-9);
  EXPECT_GT(alone["jobs"][0]["uncertainty"], 0);
  const std::string jobs =
      folder_.write("jobs.yaml", "jobs: [{name: x, profile: net.json, max_workers: 8}]\n");
  const json more = json::parse(plan("--workers 8 --json --jobs " + jobs).out);
  EXPECT_EQ(more["jobs"][0]["workers"], 8);
  EXPECT_GT(more["jobs"][0]["uncertainty"], alone["jobs"][0]["uncertainty"]);
  EXPECT_NE(more["jobs"][0]["explanation"].get<std::string>().find("+-"), std::string::npos);
}

TEST_F(PlanCommand, BadInputIsToldWithFileLineAndColumn) {
  const std::string file = folder_.write("tables/bad.csv", "global_batch_size,1,2\n64,1,-3\n");
  const auto outcome = plan(tables() + " --workers 8 2>&1");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "ffdl: read '" + file +
                             "': line 2, column 3 (2): -3 steps per second; leave the cell empty "
                             "if it is not possible\n");
}

}  // namespace
}  // namespace ffdl
