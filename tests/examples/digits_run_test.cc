// Runs the main example as a user does: real processes, real kills.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "examples/example_program.h"
#include "examples/synthetic_digits.h"
#include "support/programs.h"
#include "support/temp_folder.h"

namespace digits {
namespace {

using namespace training;
using nlohmann::json;
using ::testing::HasSubstr;

const char* real_file() {
  const char* path = std::getenv("FFDL_DIGITS_FILE");
  return path != nullptr && *path != '\0' ? path : nullptr;
}

class DigitsRun : public ::testing::Test {
 protected:
  void SetUp() override {
    if (real_file() == nullptr) return;
    ASSERT_EQ(access(real_file(), R_OK), 0)
        << "FFDL_DIGITS_FILE names '" << real_file() << "', which cannot be read; configure again";
  }
  std::string data_file() const {
    if (real_file() != nullptr) return real_file();
    const std::string path = folder_.file("digits.csv.gz");
    write_gzipped(path, synthetic_text(1797));
    return path;
  }

  Program start(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"train",     "--json", "--data",
                                       data_file(), "--out",  folder_.file("out")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Program(ffdl::kDigitsProgram, arguments, folder_.file("errors"));
  }

  const ffdl::TempFolder folder_;
};

// Trains longer than any test waits.
const std::vector<std::string> kLong{"--epochs", "100000"};

TEST_F(DigitsRun, AKilledLearnerAndServerLoseNothing) {
  constexpr int kEpochs = 15;
  Program run = start({"--kill", "--epochs", std::to_string(kEpochs)});
  const json start = run.next("start");
  ASSERT_FALSE(start.is_null()) << run.errors();
  std::vector<std::string> killed;
  std::vector<std::string> restarted;
  json last = start;
  for (json event = run.next(); !event.is_null(); event = run.next()) {
    if (event["event"] == "kill") killed.push_back(event["role"]);
    if (event["event"] == "restart") {
      restarted.push_back(event["role"]);
      EXPECT_GT(event["recovery_ms"], 0);
    }
    last = event;
  }
  EXPECT_EQ(run.wait(), 0) << run.errors();
  EXPECT_EQ(killed, (std::vector<std::string>{"learner", "server"}));
  EXPECT_THAT(restarted, ::testing::UnorderedElementsAre("learner", "server"));

  ASSERT_EQ(last["event"], "summary");
  EXPECT_EQ(last["samples"], start["train_samples"].get<uint64_t>() * kEpochs);
  EXPECT_EQ(last["repeated"], 0);
  EXPECT_EQ(last["missing"], 0);
  EXPECT_EQ(last["skipped"], 0);
  EXPECT_EQ(last["server_epoch"], 2);
  EXPECT_EQ(last["learners_reclaimed"], 1);
  // How stale a gradient is depends on the machine; a network that learns nothing has 0.1.
  EXPECT_GE(last["test_accuracy"], 0.9);
  EXPECT_EQ(read_file(folder_.file("out/run.jsonl")), run.text());
  EXPECT_FALSE(segment_exists(start["segment"]));
}

TEST_F(DigitsRun, AKilledSupervisorLeavesNothingBehind) {
  Program run = start(kLong);
  const json start = run.next("start");
  ASSERT_FALSE(start.is_null()) << run.errors();
  std::vector<pollfd> children;
  json event = run.next();
  for (; event["event"] == "spawn"; event = run.next()) {
    children.push_back({.fd = open_process(event["pid"]), .events = POLLIN, .revents = 0});
  }
  ASSERT_EQ(event["event"], "progress");
  ASSERT_EQ(children.size(), 3U);
  EXPECT_TRUE(segment_exists(start["segment"]));
  kill(run.pid(), SIGKILL);
  EXPECT_EQ(run.wait(), -SIGKILL);
  for (pollfd& child : children) {
    EXPECT_EQ(poll(&child, 1, 60'000), 1);
    close(child.fd);
  }
  EXPECT_FALSE(segment_exists(start["segment"]));
}

TEST_F(DigitsRun, AnInterruptStopsEverything) {
  Program run = start(kLong);
  const json start = run.next("start");
  ASSERT_FALSE(start.is_null()) << run.errors();
  run.next("progress");
  kill(run.pid(), SIGINT);
  EXPECT_FALSE(run.next("failure").is_null());
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.errors(), HasSubstr("stopped by signal 2 (Interrupt)"));
  EXPECT_FALSE(segment_exists(start["segment"]));
}

TEST_F(DigitsRun, ALearnerThatKeepsDyingEndsTheRun) {
  Program run = start(kLong);
  const json start = run.next("start");
  ASSERT_FALSE(start.is_null()) << run.errors();
  int kills = 0;
  json event = run.next();
  for (; !event.is_null() && event["event"] != "failure"; event = run.next()) {
    if (event["event"] != "spawn" || event["role"] != "learner" || event["slot"] != 1) continue;
    kill(event["pid"], SIGKILL);
    ++kills;
  }
  EXPECT_EQ(kills, 6);
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.errors(),
              HasSubstr("learner 1 died 6 times, the last time it ended by signal 9"));
  EXPECT_FALSE(segment_exists(start["segment"]));
}

TEST_F(DigitsRun, ATrainingThatDivergesEndsWithItsReason) {
  Program run = start({"--rule", "sgd", "--learning-rate", "1e30"});
  EXPECT_FALSE(run.next("failure").is_null());
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.errors(), HasSubstr("gave up: InvalidArgument"));
}

TEST_F(DigitsRun, WrongCommandLinesSayWhatIsWrong) {
  struct Case {
    std::vector<std::string> arguments;
    std::string message;
  };
  const std::string data = data_file();
  const std::vector<Case> cases{
      {{}, "subcommand is required"},
      {{"train"}, "--data is missing"},
      {{"train", "--data", "/nowhere"}, "open digits '/nowhere': No such file"},
      {{"train", "--data", data, "--learners", "0"}, "--learners"},
      {{"train", "--data", data, "--rule", "magic"}, "--rule"},
      {{"train", "--data", data, "--mini-batch", "x"}, "--mini-batch"},
      {{"train", "--data", data, "--learning-rate", "-1"}, "--learning-rate"},
      {{"train", "--data", data, "--out", "/proc/no"}, "write '/proc/no/run.jsonl'"},
      {{"train", "--data", data, "--colour"}, "--colour"},
  };
  for (const Case& wrong : cases) {
    SCOPED_TRACE(wrong.message);
    Program run(ffdl::kDigitsProgram, wrong.arguments, folder_.file("errors"));
    EXPECT_NE(run.wait(), 0);
    EXPECT_THAT(run.errors(), HasSubstr(wrong.message));
  }
}

}  // namespace
}  // namespace digits
