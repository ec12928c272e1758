// The main job as a user runs it: real processes, real kills.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "examples/scratch_folder.h"
#include "examples/synthetic_digits.h"
#include "ffdl/diagnose.h"

namespace digits {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

const char* real_file() {
  const char* path = std::getenv("FFDL_DIGITS_FILE");
  return path != nullptr && *path != '\0' ? path : nullptr;
}

bool segment_exists(const std::string& name) {
  const auto segments = ffdl::list_segments().value();
  return std::any_of(segments.begin(), segments.end(),
                     [&](const ffdl::SegmentInfo& segment) { return segment.name == name; });
}

// Through syscall(), as glibc 2.36 declares its pidfd_open() for C alone.
int open_process(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

// One `digits` process with its output.
class Program {
 public:
  Program(std::vector<std::string> arguments, std::string errors) : errors_(std::move(errors)) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    std::string program = DIGITS_PROGRAM;
    std::vector<char*> argv{program.data()};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      unsetenv("FFDL_DIGITS_FILE");
      dup2(ends[1], STDOUT_FILENO);
      dup2(open(errors_.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600), STDERR_FILENO);
      execv(program.c_str(), argv.data());
      _exit(127);
    }
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
  }
  ~Program() {
    if (pid_ != 0) {
      kill(pid_, SIGKILL);
      wait();
    }
    std::fclose(output_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // The next line as JSON; null at the end of the output.
  json next() {
    char* line = nullptr;
    size_t room = 0;
    const ssize_t length = getline(&line, &room, output_);
    json event;
    if (length >= 0) {
      text_ += line;
      event = json::parse(line, nullptr, false);
      EXPECT_TRUE(event.is_object()) << line;
    }
    std::free(line);
    return event;
  }

  // Reads up to the first event of that name; null when there is none.
  json next(const std::string& name) {
    json event = next();
    while (!event.is_null() && event["event"] != name) event = next();
    return event;
  }

  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  pid_t pid() const { return pid_; }
  std::string text() const { return text_; }
  std::string errors() const { return read_file(errors_); }

 private:
  std::string errors_;
  pid_t pid_ = 0;
  std::FILE* output_ = nullptr;
  std::string text_;
};

class DigitsRun : public ScratchFolder {
 protected:
  std::string data_file() const {
    if (real_file() != nullptr) return real_file();
    const std::string path = file_named("digits.csv.gz");
    write_gzipped(path, synthetic_text(1797));
    return path;
  }

  Program start(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"train",     "--json", "--data",
                                       data_file(), "--out",  file_named("out")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Program(arguments, file_named("errors"));
  }
};

// More than any test waits for.
const std::vector<std::string> kLong{"--epochs", "100000"};

TEST_F(DigitsRun, AKilledLearnerAndServerLoseNothing) {
  constexpr int kEpochs = 15;
  Program run = start({"--kill", "--epochs", std::to_string(kEpochs)});
  const json start = run.next("start");
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
  EXPECT_GE(last["test_accuracy"], real_file() != nullptr ? 0.97 : 0.95);
  EXPECT_EQ(read_file(file_named("out/run.jsonl")), run.text());
  EXPECT_FALSE(segment_exists(start["segment"]));
}

TEST_F(DigitsRun, AKilledSupervisorLeavesNothingBehind) {
  Program run = start(kLong);
  const json start = run.next("start");
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
    EXPECT_EQ(poll(&child, 1, 20000), 1);
    close(child.fd);
  }
  EXPECT_FALSE(segment_exists(start["segment"]));
}

TEST_F(DigitsRun, AnInterruptStopsEverything) {
  Program run = start(kLong);
  const json start = run.next("start");
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
  int kills = 0;
  json event = run.next();
  for (; event["event"] != "failure"; event = run.next()) {
    ASSERT_FALSE(event.is_null());
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
      {{"train"}, "--data is required"},
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
    Program run(wrong.arguments, file_named("errors"));
    EXPECT_NE(run.wait(), 0);
    EXPECT_THAT(run.errors(), HasSubstr(wrong.message));
  }
}

}  // namespace
}  // namespace digits
