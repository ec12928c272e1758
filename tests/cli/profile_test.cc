// Runs the program itself, with real workers.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/program.h"
#include "support/programs.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using Document = nlohmann::json;

class ProfileCommand : public ::testing::Test {
 protected:
  ProfileCommand() { ::setenv("TMPDIR", folder_.path().c_str(), 1); }
  ~ProfileCommand() override { ::unsetenv("TMPDIR"); }

  static ProgramOutcome run(const std::string& arguments) {
    return run_program(std::string(kFfdlProgram) + " " + arguments + " 2>&1");
  }

  const TempFolder folder_;
};

TEST_F(ProfileCommand, WritesWhatThePlannerReads) {
  const std::string file = folder_.file("profile.json");
  const auto outcome = run("profile --job p --workers 1:2 --steps 10 --output " + file + " -- " +
                           kSteeredWorker + " " + folder_.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out;
  const Document profile = Document::parse(std::ifstream(file));
  EXPECT_EQ(profile["format"], "ffdl-profile-1");
  EXPECT_EQ(profile["job"], "p");
  EXPECT_EQ(profile["global_batch"], 16);
  ASSERT_EQ(profile["points"].size(), 2U);
  for (const int i : {0, 1}) {
    const Document& point = profile["points"][static_cast<size_t>(i)];
    EXPECT_EQ(point["workers"], 2 - i);
    EXPECT_EQ(point["batch"], 16 - 8 * i);
    EXPECT_GE(point["steps"], 10);
    EXPECT_GT(point["step_s"], 0.0);
    EXPECT_GT(point["samples_per_s"], 0.0);
    EXPECT_GT(point["host_memory_bytes"], 0);
    EXPECT_GE(point["communication_share"], 0.0);
  }
}

TEST_F(ProfileCommand, SaysWhyThereIsNoProfile) {
  const std::string file = " --output " + folder_.file("p.json");
  const auto ended = run("profile --workers 2" + file + " true");
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_NE(ended.out.find("StepMetrics"), std::string::npos) << ended.out;
  const auto failed = run("profile --workers 2 --max-restarts 0" + file + " false");
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_NE(failed.out.find("workers failed"), std::string::npos) << failed.out;
  EXPECT_EQ(run("profile --workers 2 --output /no/folder/p true").exit_code, 1);
  EXPECT_EQ(run("profile --workers 2 --steps 0 true").exit_code, 2);
  EXPECT_EQ(run("profile --workers 2" + file).exit_code, 2);
  EXPECT_EQ(run("profile --help").exit_code, 0);
}

}  // namespace
}  // namespace ffdl
