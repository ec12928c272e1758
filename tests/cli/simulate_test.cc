// Runs the program itself.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/programs.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using nlohmann::json;

ProgramOutcome simulate(const std::string& arguments) {
  return run_program(std::string(kFfdlProgram) + " simulate " + arguments);
}

// Prepares one program: steps of 1 s, one epoch of 100.
class SimulateCommand : public testing::Test {
 protected:
  SimulateCommand() {
    folder_.write("profiles/net/placements.csv",
                  "placement,local_bsz,step_time,sync_time\n1,8,1.0,0\n2,4,1.0,0.1\n2,8,1.0,0.1\n");
    folder_.write("profiles/net/validation-8.csv",
                  "progress,iteration,metric,grad_sqr,grad_var\n100,100,0.5,1,1\n");
  }

  std::string with(const std::string& workload) const {
    return "--profiles " + folder_.path() + "/profiles --nodes 1 --gpus-per-node 2 --workload " +
           folder_.write("workload.csv",
                         "name,time,application,num_replicas,batch_size\n" + workload);
  }

  TempFolder folder_;
};

TEST_F(SimulateCommand, PrintsOneJsonDocument) {
  const auto outcome = simulate(with("a,0,net,1,8\nb,30,net,1,8\nc,60,net,2,8\n") +
                                " --policy fixed --restart-cost 10 --json");
  EXPECT_EQ(outcome.exit_code, 0);
  const json document = json::parse(outcome.out);
  EXPECT_EQ(document["jobs"], 3);
  EXPECT_EQ(document["completed"], 3);
  // a and b run from 60 s to 170 s, c from 180 s to 290 s.
  EXPECT_NEAR(document["mean_jct_s"], (170 + 140 + 230) / 3.0, 1e-9);
  EXPECT_EQ(document["median_jct_s"], 170);
  EXPECT_EQ(document["makespan_s"], 290);
  EXPECT_EQ(document["reallocations"], 0);
  EXPECT_EQ(document["per_job"][2]["started_s"], 180);
  for (const char* key : {"p99_jct_s", "decision_ms_median", "decision_ms_max", "utilisation"}) {
    EXPECT_TRUE(document[key].is_number()) << key;
  }
}

TEST_F(SimulateCommand, PrintsATable) {
  const auto outcome = simulate(with("a,0,net,1,8\n"));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.out.find("mean_jct_s           190.0"), std::string::npos) << outcome.out;
}

TEST_F(SimulateCommand, DrawsAWorkloadAndDropsWhatDoesNotFit) {
  const auto report = [&](const std::string& more) {
    with("");  // writes the profiles
    return json::parse(simulate("--profiles " + folder_.path() +
                                "/profiles --nodes 1 --gpus-per-node 2 --json --objective "
                                "throughput --arrivals bursty --jobs 40 --load 5 --seed 3 " +
                                more)
                           .out);
  };
  const json queued = report("--batch min");
  EXPECT_EQ(queued["completed"], 40);
  EXPECT_EQ(queued["dropped"], 0);
  const json dropping = report("--batch min --when-full drop");
  EXPECT_GT(dropping["dropped"], 0);
  EXPECT_EQ(dropping["completed"].get<int>() + dropping["dropped"].get<int>(), 40);
  int dropped = 0;
  for (const json& job : dropping["per_job"]) {
    dropped += job["dropped_s"].is_null() ? 0 : 1;
    EXPECT_NE(job["dropped_s"].is_null(), job["completed_s"].is_null());
  }
  EXPECT_EQ(dropping["dropped"], dropped);
}

TEST_F(SimulateCommand, RunsATraceWithTablesOrWithout) {
  const std::string trace =
      " --nodes 1 --gpus-per-node 2 --json --policy fixed --restart-cost 10 --workload " +
      folder_.write("trace.csv",
                    "job_id,submission_time,duration,num_gpu\na,1000,100,1\nb,1000,50,2\n");
  folder_.write("tables/net.csv", "global_batch_size,1,2\n8,1,1.5\n");
  for (const std::string& programs :
       {std::string(), " --throughputs " + folder_.path() + "/tables"}) {
    const auto outcome = simulate(trace + programs);
    ASSERT_EQ(outcome.exit_code, 0);
    const json document = json::parse(outcome.out);
    EXPECT_EQ(document["per_job"][0]["completed_s"], 170);
    EXPECT_EQ(document["per_job"][1]["completed_s"], 180 + 60);
    EXPECT_EQ(document["per_job"][0]["application"], programs.empty() ? "any" : "net");
  }
  EXPECT_NE(simulate(trace + " --nodes 2 --profiles a --throughputs b 2>/dev/null").exit_code, 0);
  const auto nothing = simulate("--arrivals poisson 2>&1");
  EXPECT_EQ(nothing.out,
            "ffdl: simulate: the speed of the jobs is unknown; give --profiles or "
            "--throughputs\n");
}

TEST_F(SimulateCommand, WritesWhatATimelineIsDrawnFrom) {
  const std::string file = folder_.path() + "/timeline.json";
  const auto outcome = simulate(with("a,0,net,1,8\n") + " --timeline " + file);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.out.find("mean_jct_s"), std::string::npos);
  std::ifstream written(file);
  EXPECT_EQ(json::parse(written)["timeline"].size(), 2U);
  const auto picture = simulate(with("a,0,net,1,8\n") + " --timeline out.png 2>&1");
  EXPECT_EQ(picture.exit_code, 1);
  EXPECT_NE(picture.out.find("the ffdl command of the Python package can draw"), std::string::npos);
  EXPECT_EQ(picture.out.find("mean_jct_s"), std::string::npos) << "told before it begins";
}

TEST_F(SimulateCommand, ToldWhatIsWrong) {
  const auto outcome = simulate(with("a,0,other,1,8\n") + " 2>&1");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "ffdl: read '" + folder_.path() +
                             "/workload.csv': line 2, column 3: job 'a': there is no profile of "
                             "'other'; add one\n");
  EXPECT_NE(simulate(with("a,0,net,1,8\n") + " --policy best 2>/dev/null").exit_code, 0);
}

}  // namespace
}  // namespace ffdl
