// Runs the program itself.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/programs.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using Json = nlohmann::json;

class DataAuditCommand : public testing::Test {
 protected:
  ProgramOutcome audit(const std::string& arguments) const {
    return run_program(std::string(kFfdlProgram) + " data audit " + arguments);
  }
  std::string log(const std::string& name, const std::string& lines) const {
    return folder_.write(name, "{\"samples\":4,\"partition_samples\":2,\"epochs\":2}\n" + lines);
  }
  TempFolder folder_;
};

constexpr const char* kStep1 = "{\"step\":1,\"lineage\":1,\"parts\":[[\"a\",1,0,0,2]]}\n";
constexpr const char* kStep2 = "{\"step\":2,\"lineage\":1,\"parts\":[[\"b\",1,1,0,2]]}\n";
constexpr const char* kStep3 = "{\"step\":3,\"lineage\":1,\"parts\":[[\"b\",1,1,2,3]]}\n";

TEST_F(DataAuditCommand, ProvesAnEpoch) {
  const std::string logs = log("a", kStep1) + " " + log("b", std::string(kStep2) + kStep3);
  const auto outcome = audit(logs);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(
      outcome.out,
      "3 steps committed 5 samples: 1 epochs, each sample once, and 1 samples of the next epoch\n");
  const Json document = Json::parse(audit("--json " + logs).out);
  EXPECT_EQ(document["ok"], true);
  EXPECT_EQ(document["epochs"], 1);
  EXPECT_EQ(document["under_way"], 1);
  EXPECT_EQ(audit("--complete " + logs + " >&2 2>/dev/null").exit_code, 1);
}

TEST_F(DataAuditCommand, AFolderStandsForTheLogsInIt) {
  EXPECT_NE(audit(folder_.path() + " 2>&1").out.find("it has no file *.commits"),
            std::string::npos);
  log("worker-0.commits", kStep1);
  log("worker-1.commits", kStep2);
  folder_.write("worker-1.commits-1", "{\"samples\":9,\"partition_samples\":9,\"epochs\":1}\n");
  const auto outcome = audit("--json " + folder_.path());
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(Json::parse(outcome.out)["samples"], 4);
}

TEST_F(DataAuditCommand, FurtherJobsGoOnFromCheckpoints) {
  const std::string first = log("monday", std::string(kStep1) + kStep3);  // step 3 is taken back
  const std::string then = log("tuesday", kStep2);
  const std::string last =
      log("wednesday", "{\"step\":3,\"lineage\":1,\"parts\":[[\"c\",1,0,2,4],[\"c\",1,1,2,4]]}\n");
  const auto outcome = audit("--complete " + first + " --then " + then + " --then " + last);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_EQ(audit("--complete " + first + " " + then + " " + last + " 2>&1").exit_code, 1);
}

TEST_F(DataAuditCommand, NamesWhatIsWrong) {
  const std::string logs = log("a", std::string(kStep1) + kStep3);
  const auto outcome = audit(logs + " 2>&1");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.out.find("samples [0, 2) of partition 1 are missing"), std::string::npos)
      << outcome.out;
  EXPECT_NE(
      outcome.out.find("ffdl: audit 1 commit logs: 2 samples missing, 0 repeated, 1 problems"),
      std::string::npos)
      << outcome.out;
  const Json document = Json::parse(audit("--json " + logs + " 2>/dev/null").out);
  EXPECT_EQ(document["ok"], false);
  EXPECT_EQ(document["missing"], 2);
  EXPECT_EQ(document["first_problems"].size(), 1U);
  EXPECT_EQ(audit(folder_.file("none") + " 2>/dev/null").exit_code, 1);
  EXPECT_EQ(audit("2>/dev/null").exit_code, 2);
}

}  // namespace
}  // namespace ffdl
