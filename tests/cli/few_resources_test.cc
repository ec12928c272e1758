// Runs the commands with few descriptors, few threads or little memory. Each command behaves as
// without a limit, or ends soon with exit code 1. It then names the limit to raise.
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ffdl/runtime.h"
#include "support/fork_child.h"
#include "support/programs.h"
#include "support/sanitized.h"
#include "support/started_program.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

constexpr uid_t kOther = 65533;                       // no other test runs processes of this user
constexpr auto kPatience = std::chrono::seconds(60);  // enough for a busy machine; longer is a hang

struct Limit {
  decltype(RLIMIT_NOFILE) resource = RLIMIT_NOFILE;
  rlim_t value = 0;
  bool is_other_user = false;  // needed because root has no limit of processes
};

// No limit that these tests could reach.
constexpr Limit kNone = {.resource = RLIMIT_NOFILE, .value = 1024};

struct Command {
  std::vector<std::string> words;
  bool says_the_same = false;  // its output is equal in every run
};

struct Outcome {
  int state = 0;
  bool has_ended = false;
  std::string out;
};

[[noreturn]] void become(const Limit& limit, int out, const std::vector<std::string>& words) {
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  for (int fd = 3; fd < 256; ++fd) ::close(fd);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const rlimit both = {limit.value, limit.value};
  if (::setrlimit(limit.resource, &both) != 0) ::_exit(100);
  if (limit.is_other_user &&
      (::setgroups(0, nullptr) != 0 || ::setgid(kOther) != 0 || ::setuid(kOther) != 0)) {
    ::_exit(100);
  }
  ::execv(argv[0], argv.data());
  ::_exit(101);
}

class FewResourcesTest : public ::testing::Test {
 protected:
  FewResourcesTest() {
    ::setenv("TMPDIR", temporary_.path().c_str(), 1);
    ::chmod(temporary_.path().c_str(), 01777);
    temporary_.write("jobs.yaml", "jobs: [{name: a, scaling: [1, 1.9]}]\n");
    temporary_.write("commits/worker-0.commits",
                     "{\"samples\":4,\"partition_samples\":2,\"epochs\":2}\n");
    temporary_.write("workload.csv", "job_id,submission_time,duration,num_gpu\na,0,100,1\n");
    temporary_.write("policy.yaml", "policy: queue\nper_worker: 100\nmax_workers: 3\n");
    temporary_.write("sizes.jsonl",
                     "{\"t_s\":1,\"workers\":2,\"metrics\":{\"queue_depth\":900}}\n"
                     "{\"t_s\":90,\"workers\":2,\"metrics\":{\"queue_depth\":900}}\n");
  }
  void SetUp() override { FFDL_SKIP_WITHOUT_DESCRIPTORS_FOR_UBSAN(); }
  ~FewResourcesTest() override { ::unsetenv("TMPDIR"); }

  // Includes two members of a world that connect and reduce under the limit.
  std::vector<Command> commands() const {
    const std::string ffdl = kFfdlProgram;
    const std::string store = "tcp://" + temporary_.file("store");
    const auto run = [&](std::vector<std::string> more) {
      std::vector<std::string> words = {ffdl, "run", "--max-restarts", "0", "--grace", "2"};
      words.insert(words.end(), more.begin(), more.end());
      return Command{words};
    };
    return {
        run({"--", "/bin/true"}),
        run({"--workers", "3", "--", "/bin/true"}),
        run({"--workers", "2", "--", kMemberWorker, "2"}),
        run({"--log-dir", temporary_.file("logs"), "--", "/bin/true"}),
        {{ffdl, "status", "there"}},
        {{ffdl, "status", "none"}},
        {{ffdl, "scale", "there", "1"}},
        {{ffdl, "scale", "none", "1"}},
        {{ffdl, "migrate", "none", "0"}},
        {{ffdl, "plan", "--workers", "2", "--jobs", temporary_.file("jobs.yaml")}, true},
        {{ffdl, "simulate", "--nodes", "1", "--workload", temporary_.file("workload.csv")}},
        {{ffdl, "policy", "replay", temporary_.file("sizes.jsonl"), "--policy",
          temporary_.file("policy.yaml")},
         true},
        {{ffdl, "profile", "--job", "profiled", "--", "/bin/true"}},
        {{ffdl, "data", "audit", temporary_.file("commits")}, true},
        {{ffdl, "doctor", "--dry-run"}},
        {{ffdl, "stats", "none"}},
        {{ffdl, "status", "none", "--store", store}},
    };
  }

  static std::string line_of(const std::vector<std::string>& words) {
    std::string line;
    for (const std::string& word : words) line += word + " ";
    return line;
  }

  // Returns the outcome without a limit, as the same user.
  const Outcome& usual(const Command& command, const Limit& limit) {
    const auto key = std::pair(line_of(command.words), limit.is_other_user);
    const auto found = usual_.find(key);
    if (found != usual_.end()) return found->second;
    Limit none = kNone;
    none.is_other_user = limit.is_other_user;
    return usual_.emplace(key, run(none, command.words)).first->second;
  }

  static bool names_a_limit(const std::string& text) {
    return std::ranges::any_of(
        std::vector<std::string>{"ulimit -n", "ulimit -u", "ulimit -v", "ulimit -f", "file-max"},
        [&](const std::string& words) { return text.find(words) != text.npos; });
  }

  Outcome run(const Limit& limit, const std::vector<std::string>& words) const {
    int out[2] = {-1, -1};  // holds all output, whatever the limit of file sizes is
    EXPECT_EQ(::pipe2(out, O_CLOEXEC | O_NONBLOCK), 0);
    const pid_t child = testing::fork_child();
    if (child == 0) {
      ::setpgid(0, 0);
      become(limit, out[1], words);
    }
    ::close(out[1]);
    ::setpgid(child, child);
    Outcome outcome;
    const Time deadline = deadline_in(kPatience);
    const auto never = system_runtime().make_event();
    while (!outcome.has_ended && deadline_in({}) < deadline) {
      outcome.has_ended = ::waitpid(child, &outcome.state, WNOHANG) == child;
      if (!outcome.has_ended) never->wait_until(deadline_in(std::chrono::milliseconds(2)));
    }
    ::kill(-child, SIGKILL);
    if (!outcome.has_ended) ::waitpid(child, nullptr, 0);
    char text[4096];
    ssize_t got = 0;
    while ((got = ::read(out[0], text, sizeof text)) > 0) {
      outcome.out.append(text, static_cast<size_t>(got));
    }
    ::close(out[0]);
    return outcome;
  }

  void expect_a_clear_end(const Limit& limit) {
    for (const Command& command : commands()) {
      SCOPED_TRACE(line_of(command.words) + "with a limit of " + std::to_string(limit.value));
      const Outcome& without = usual(command, limit);
      ASSERT_TRUE(without.has_ended && WIFEXITED(without.state)) << without.out;
      const int usual_code = WEXITSTATUS(without.state);
      const Outcome outcome = run(limit, command.words);
      ASSERT_TRUE(outcome.has_ended) << "it hangs\n" << outcome.out;
      ASSERT_TRUE(WIFEXITED(outcome.state)) << "signal " << WTERMSIG(outcome.state) << "\n"
                                            << outcome.out;
      const int code = WEXITSTATUS(outcome.state);
      const bool must_say_the_same = command.says_the_same || usual_code != 0;
      if (code == usual_code && (!must_say_the_same || outcome.out == without.out)) continue;
      EXPECT_EQ(code, 1) << outcome.out;
      EXPECT_TRUE(names_a_limit(outcome.out)) << outcome.out;
      EXPECT_NE(outcome.out.find("ffdl: "), std::string::npos) << outcome.out;
    }
  }

  const TempFolder temporary_;
  std::map<std::pair<std::string, bool>, Outcome> usual_;
};

// Runs a job without a limit, which the commands inspect.
class LimitedCommandsTest : public FewResourcesTest {
 protected:
  void SetUp() override {
    FewResourcesTest::SetUp();
    if (IsSkipped()) return;
    job_.emplace(std::string(kFfdlProgram) + " run --job there -- sh -c 'echo up; exec sleep 9999'",
                 temporary_.file("job"));
    ASSERT_TRUE(comes_true([&] { return job_->wrote("] up"); })) << job_->output();
  }

  void expect_clear_ends(decltype(RLIMIT_NOFILE) resource, const std::vector<rlim_t>& values,
                         bool is_other_user = false) {
    for (const rlim_t value : values) {
      expect_a_clear_end({resource, value, is_other_user});
      if (HasFatalFailure()) return;
    }
  }
  // Returns sizes of memory. In the first of them the program can print its version.
  std::vector<rlim_t> sizes(rlim_t step) const {
    constexpr rlim_t kMiB = 1 << 20;
    rlim_t bytes = 32 * kMiB;
    while (bytes < 1024 * kMiB &&
           run({.resource = RLIMIT_AS, .value = bytes}, {kFfdlProgram, "--version"}).state != 0) {
      bytes += 4 * kMiB;
    }
    std::vector<rlim_t> all;
    for (rlim_t more = 0; more <= 256; more += step) all.push_back(bytes + more * kMiB);
    return all;
  }
  bool may_be_another_user() const {
    return ::getuid() == 0 && run({.resource = RLIMIT_NPROC, .value = 1000, .is_other_user = true},
                                  {kFfdlProgram, "--version"})
                                      .state == 0;
  }
  static std::vector<rlim_t> all_from(rlim_t first, rlim_t last) {
    std::vector<rlim_t> all;
    for (rlim_t value = first; value <= last; ++value) all.push_back(value);
    return all;
  }

  std::optional<StartedProgram> job_;
};

TEST_F(LimitedCommandsTest, Descriptors) {
  expect_clear_ends(RLIMIT_NOFILE, {8, 10, 13, 18, 20, 28});
}

// The limit holds for each file that the command writes, its output included.
TEST_F(LimitedCommandsTest, SizesOfFiles) { expect_clear_ends(RLIMIT_FSIZE, {0, 4, 60, 300}); }

TEST_F(LimitedCommandsTest, Threads) {
  if (!may_be_another_user()) GTEST_SKIP() << "only root becomes a user that has no process yet";
  expect_clear_ends(RLIMIT_NPROC, {1, 2, 3, 5, 9}, /*is_other_user=*/true);
}

TEST_F(LimitedCommandsTest, Memory) { expect_clear_ends(RLIMIT_AS, sizes(64)); }

// The slow tests try every number.
TEST_F(LimitedCommandsTest, DISABLED_EveryNumberOfDescriptors) {
  expect_clear_ends(RLIMIT_NOFILE, all_from(8, 64));
}
TEST_F(LimitedCommandsTest, DISABLED_EveryNumberOfThreads) {
  if (!may_be_another_user()) GTEST_SKIP() << "only root becomes a user that has no process yet";
  expect_clear_ends(RLIMIT_NPROC, all_from(1, 24), /*is_other_user=*/true);
}
TEST_F(LimitedCommandsTest, DISABLED_EverySizeOfMemory) { expect_clear_ends(RLIMIT_AS, sizes(8)); }

TEST_F(FewResourcesTest, AnOutputThatIsCutIsAnError) {
  const std::string out = temporary_.write("output", "");
  const std::string words = std::string(kFfdlProgram) + " plan --workers 2 --jobs " +
                            temporary_.file("jobs.yaml") + " > " + out;
  const Outcome outcome = run({.resource = RLIMIT_FSIZE, .value = 10}, {"/bin/sh", "-c", words});
  ASSERT_TRUE(WIFEXITED(outcome.state)) << "signal " << WTERMSIG(outcome.state);
  EXPECT_EQ(WEXITSTATUS(outcome.state), 1);
  EXPECT_NE(outcome.out.find("ulimit -f"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace ffdl
