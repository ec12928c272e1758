// Runs the programs themselves: an autoscaler and jobs of real processes.
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/programs.h"
#include "support/started_program.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using Document = nlohmann::json;

const std::string kFfdl = kFfdlProgram;
const std::string kTrainer = kMemberWorker;

class AutoscaleCommand : public ::testing::Test {
 protected:
  AutoscaleCommand() { ::setenv("TMPDIR", folder_.path().c_str(), 1); }
  ~AutoscaleCommand() override { ::unsetenv("TMPDIR"); }

  std::string store() const { return " --store tcp://" + folder_.path() + "/store "; }
  std::string command(const std::string& name) const { return kFfdl + " " + name + store(); }
  std::string run(const std::string& job, const std::string& workers,
                  const std::string& program) const {
    return command("run") + "--autoscale --job " + job + " --workers " + workers + " -- " + program;
  }
  Document decided() const {
    const auto shown = run_program(command("autoscale") + "--show --json");
    return shown.exit_code == 0 ? Document::parse(shown.out) : Document();
  }
  // Returns true if the jobs are granted these numbers of workers, in order of arrival, and run
  // them.
  bool has(const std::map<std::string, int>& expected) const {
    const Document all = decided();
    if (!all.contains("jobs") || all["jobs"].size() != expected.size()) return false;
    for (const Document& job : all["jobs"]) {
      const std::string name = job["job"];
      if (!expected.contains(name) || job["workers"] != expected.at(name)) return false;
      const auto shown = run_program(command("status " + name) + "--json");
      if (shown.exit_code != 0) return false;
      const Document status = Document::parse(shown.out);
      if (status["world_size"] != job["workers"] || status["running"] != job["workers"]) {
        return false;
      }
    }
    return true;
  }

  const TempFolder folder_;
};

TEST_F(AutoscaleCommand, JobsShareTheWorkersAndOutliveTheAutoscaler) {
  auto autoscaler = std::make_unique<StartedProgram>(command("autoscale") + "--workers 2",
                                                     folder_.file("autoscale-1"));
  StartedProgram a(run("a", "1:2", kTrainer), folder_.file("a"));
  ASSERT_TRUE(comes_true([&] { return has({{"a", 2}}); })) << a.output();
  StartedProgram b(run("b", "1:2", kTrainer), folder_.file("b"));
  ASSERT_TRUE(comes_true([&] { return has({{"a", 1}, {"b", 1}}); })) << b.output();

  autoscaler->signal(SIGKILL);
  EXPECT_EQ(autoscaler->wait(), -SIGKILL);
  b.signal(SIGTERM);
  EXPECT_EQ(b.wait(), 128 + SIGTERM) << b.output();
  EXPECT_TRUE(comes_true([&] { return has({{"a", 1}}); })) << decided();  // no autoscaler runs
  autoscaler = std::make_unique<StartedProgram>(command("autoscale"), folder_.file("autoscale-2"));
  EXPECT_TRUE(comes_true([&] { return has({{"a", 2}}); }))
      << autoscaler->output() << decided() << a.output();
  a.signal(SIGTERM);
  EXPECT_EQ(a.wait(), 128 + SIGTERM) << a.output();
  EXPECT_TRUE(comes_true([&] { return decided()["jobs"].empty(); }));
  autoscaler->signal(SIGTERM);
  EXPECT_EQ(autoscaler->wait(), 128 + SIGTERM);
}

TEST_F(AutoscaleCommand, WhoDoesNotFitIsTurnedAwayOrWaits) {
  const StartedProgram autoscaler(command("autoscale") + "--when-full drop",
                                  folder_.file("autoscale"));
  EXPECT_EQ(run_program(command("offer node-1") + "2").exit_code, 0);
  StartedProgram large(run("large", "3", "true"), folder_.file("large"));
  EXPECT_EQ(large.wait(), 1);
  EXPECT_TRUE(large.wrote("queue job 'large': it was rejected: it needs 3 workers, and none of"))
      << large.output();
  StartedProgram small(run("small", "1:2", "true"), folder_.file("small"));
  EXPECT_EQ(small.wait(), 0) << small.output();
  EXPECT_TRUE(small.wrote("job 'small' starts with 2 workers")) << small.output();
}

TEST_F(AutoscaleCommand, AJobSharesTheRoomOfItsNode) {
  const StartedProgram autoscaler(command("autoscale"), folder_.file("autoscale"));
  EXPECT_EQ(run_program(command("offer east") + "1").exit_code, 0);
  EXPECT_EQ(run_program(command("offer west") + "3").exit_code, 0);
  StartedProgram job(
      command("run") + "--autoscale --on-node east --job job --workers 1:4 -- " + kTrainer,
      folder_.file("job"));
  ASSERT_TRUE(comes_true([&] { return has({{"job", 1}}); })) << job.output();
  EXPECT_EQ(decided()["jobs"][0]["nodes"], Document({{"east", 1}}));
  EXPECT_EQ(decided()["nodes"], Document({{"east", 1}, {"west", 3}}));
  EXPECT_EQ(run_program(command("offer east") + "2").exit_code, 0);
  EXPECT_TRUE(comes_true([&] { return has({{"job", 2}}); })) << job.output() << decided();
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM) << job.output();
}

TEST_F(AutoscaleCommand, WhoWaitsCanBeStopped) {
  StartedProgram waits(run("waits", "1", "true"), folder_.file("waits"));
  ASSERT_TRUE(comes_true([&] { return decided()["jobs"].size() == 1; })) << waits.output();
  waits.signal(SIGINT);
  EXPECT_EQ(waits.wait(), 128 + SIGINT) << waits.output();
  EXPECT_EQ(decided()["jobs"].size(), 0U);
}

TEST_F(AutoscaleCommand, ToldWhatIsWrong) {
  const auto fails = [](const std::string& arguments, const std::string& text) {
    const auto outcome = run_program(kFfdl + " " + arguments + " 2>&1");
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_NE(outcome.out.find(text), std::string::npos) << outcome.out;
  };
  fails("autoscale --store mem://", "other processes cannot open it");
  fails("autoscale" + store() + "--interval 0", "--interval");
  fails("offer" + store() + "node -1", "'-1' is not a number from 0");
  fails("run --autoscale true", "--autoscale and no --store");
  fails("run --scaling 1,2 true", "--scaling is for --autoscale");
  fails("run" + store() + "--autoscale --workers 1:3 --scaling 1,2 true",
        "--scaling has 2 numbers, but --workers allows up to 3");
  fails("run --profile net.json true", "--profile is for --autoscale");
  fails("run --on-node here true", "--on-node is for --autoscale");
  fails("run" + store() + "--autoscale --workers 1:3 --scaling 1,2,3 --profile net.json true",
        "--scaling and --profile");
  fails("run" + store() + "--autoscale --workers 1:2 --profile /nowhere/net.json true",
        "read '/nowhere/net.json': no such file");
  fails("run" + store() + "--autoscale --workers 1:2 --scaling 1,-2 true",
        "--scaling: '-2' is not a number from 0");
}

}  // namespace
}  // namespace ffdl
