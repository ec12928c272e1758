// Runs the program itself.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "support/program.h"
#include "support/programs.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using nlohmann::json;

class PolicyCommand : public testing::Test {
 protected:
  PolicyCommand() {
    std::string lines;
    int t_s = 0;
    for (const int length : {20, 40, 40, 40, 10, 10, 40, 40}) {
      lines +=
          json{{"t_s", t_s += 10}, {"workers", 2}, {"metrics", {{"queue_depth", length}}}}.dump();
      lines += '\n';
    }
    folder_.write("trace.jsonl", lines);
    folder_.write("queue.yaml",
                  "{policy: queue, per_worker: 10, cooldown_s: 0, confirmations: 1}\n");
    folder_.write("steady.yaml",
                  "{policy: queue, per_worker: 10, cooldown_s: 60, confirmations: 2}\n");
  }

  ProgramOutcome replay(const std::string& arguments) const {
    return run_program("cd " + folder_.path() + " && " + kFfdlProgram + " policy replay " +
                       arguments + " 2>&1");
  }

  TempFolder folder_;
};

TEST_F(PolicyCommand, PrintsSizesOverTimeAndHowMuchTheySwing) {
  const auto outcome = replay("trace.jsonl --policy queue.yaml --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out;
  const json document = json::parse(outcome.out);
  std::vector<int> sizes;
  for (const json& point : document["points"]) sizes.push_back(point["workers"]);
  EXPECT_EQ(sizes, (std::vector<int>{2, 4, 4, 4, 1, 1, 4, 4}));
  EXPECT_EQ(document["points"][1]["t_s"], 20);
  EXPECT_EQ(document["changes"], 3);
  EXPECT_EQ(document["reversals"], 2);
  EXPECT_DOUBLE_EQ(document["oscillation"], 2.0 / 3);
  EXPECT_EQ(document["seconds"], 70);

  const auto table = replay("trace.jsonl --policy queue.yaml");
  EXPECT_EQ(table.exit_code, 0);
  EXPECT_NE(table.out.find("8 points in 70.0 s: 3 changes, 2 of them reversals"), std::string::npos)
      << table.out;
  EXPECT_NE(table.out.find("10.0 s        4         4  'queue_depth' is 40"), std::string::npos)
      << table.out;
}

TEST_F(PolicyCommand, FailsWhereThePolicySwings) {
  const auto swings = replay("trace.jsonl --policy queue.yaml --max-oscillation 0.5");
  EXPECT_EQ(swings.exit_code, 3);
  EXPECT_NE(swings.out.find("oscillation is 0.67, above 0.5"), std::string::npos) << swings.out;
  EXPECT_EQ(replay("trace.jsonl --policy steady.yaml --max-oscillation 0.5").exit_code, 0);
  EXPECT_EQ(replay("trace.jsonl --policy queue.yaml --max-oscillation 0.5 --window 5").exit_code,
            0);
}

TEST_F(PolicyCommand, SaysWhatIsWrong) {
  const auto fails = [&](const std::string& arguments, int code, const std::string& says) {
    const auto outcome = replay(arguments);
    EXPECT_EQ(outcome.exit_code, code) << arguments;
    EXPECT_NE(outcome.out.find(says), std::string::npos) << outcome.out;
  };
  fails("none.jsonl --policy queue.yaml", 1, "read 'none.jsonl': no such file");
  fails("trace.jsonl --policy none.yaml", 1, "read 'none.yaml': no such file");
  fails("queue.yaml --policy queue.yaml", 1, "line 1: not a JSON object");
  fails("trace.jsonl", 2, "--policy is required");
  fails("trace.jsonl --policy queue.yaml --max-oscillation 2", 2, "--max-oscillation");
  fails("--help", 0, "Exit codes");
}

}  // namespace
}  // namespace ffdl
