#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ffdl/data/commit_log.h"
#include "hosts/hosts.h"
#include "support/etcd_server.h"
#include "support/private_files.h"
#include "support/programs.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

// Tests `ffdl run` on several hosts. Its workers give no address: they find each other by the one
// from which they reach the store.
namespace ffdl::testing {
namespace {

using Words = std::vector<std::string>;

class RunOnHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = Hosts::why_not(); !why.empty()) GTEST_SKIP() << why;
    setenv("FFDL_STORE_SECRET", "of the job on many hosts", 1);
    setenv("TMPDIR", temporary_.path().c_str(), 1);
  }
  ~RunOnHosts() override {
    unsetenv("FFDL_STORE_SECRET");
    unsetenv("TMPDIR");
  }

  // Starts a node of the job on that host, with these options and program. Its output is a file.
  pid_t start(Hosts& hosts, int host, const Words& options, const Words& program) const {
    Words words = {
        kFfdlProgram,       "run", "--job",           "hosts",
        "--nproc-per-node", "1",   "--rdzv-endpoint", Hosts::store_address(0) + ":29400"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), program.begin(), program.end());
    return hosts.start(host, [words, file = output_file(host)] {
      const int output = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
      dup2(output, STDOUT_FILENO);
      dup2(output, STDERR_FILENO);
      std::vector<char*> arguments;
      for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
      arguments.push_back(nullptr);
      execv(arguments[0], arguments.data());
      return 127;
    });
  }
  std::string output_file(int host) const { return output_.file("host-" + std::to_string(host)); }
  std::string output(int host) const {
    std::ifstream file(output_file(host));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool wrote(int host, const std::string& text) const {
    return output(host).find(text) != std::string::npos;
  }
  static int wait(pid_t launcher) {
    int status = 0;
    waitpid(launcher, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  // Runs one worker on each host until they have taken steps together. Returns the exit codes.
  // `with_ranks`: each host has its --node-rank.
  std::vector<int> run(int count, const Words& more = {}, bool with_ranks = true) const {
    const auto hosts = Hosts::make(count);
    if (hosts == nullptr) return {};
    std::vector<pid_t> launchers;
    for (int host = 0; host < count; ++host) {
      Words options = {"--nnodes", std::to_string(count)};
      if (with_ranks) options.insert(options.end(), {"--node-rank", std::to_string(host)});
      options.insert(options.end(), more.begin(), more.end());
      launchers.push_back(start(*hosts, host, options, {kMemberWorker, "20"}));
    }
    std::vector<int> codes;
    for (const pid_t launcher : launchers) codes.push_back(wait(launcher));
    for (int host = 0; host < count; ++host) {
      if (codes[static_cast<size_t>(host)] != 0) ADD_FAILURE() << host << ": " << output(host);
    }
    return codes;
  }

  const TempFolder temporary_;
  const TempFolder output_;
};

TEST_F(RunOnHosts, TwoFindEachOther) { EXPECT_EQ(run(2), std::vector<int>(2, 0)); }

TEST_F(RunOnHosts, EightFindEachOther) { EXPECT_EQ(run(8), std::vector<int>(8, 0)); }

// The same command on each host: the store's host is node 0, and the others take the ranks that
// are left.
TEST_F(RunOnHosts, NoneNeedsARank) {
  EXPECT_EQ(run(2, {}, false), std::vector<int>(2, 0));
  EXPECT_EQ(run(4, {}, false), std::vector<int>(4, 0));
}

TEST_F(RunOnHosts, TwoFindEachOtherOnTheNetworkThatIsNamed) {
  const std::string network = Hosts::store_address(0) + "/24";
  EXPECT_EQ(run(2, {"--interface", network}), std::vector<int>(2, 0));
}

TEST_F(RunOnHosts, TwoEncryptTheirConnections) {
  EXPECT_EQ(run(2, {"--tls"}), std::vector<int>(2, 0));
}

class EtcdOnHosts : public RunOnHosts {
 protected:
  void SetUp() override {
    RunOnHosts::SetUp();
    if (IsSkipped()) return;
    if (const auto why = why_no_etcd(); !why.empty()) GTEST_SKIP() << why;
  }
  // Returns the folders of jobs that are there.
  std::vector<std::string> folders() const {
    std::vector<std::string> found;
    const std::string users = temporary_.file("ffdl-" + std::to_string(getuid()));
    for (const auto& entry : std::filesystem::directory_iterator(users)) {
      found.push_back(entry.path().filename().string());
    }
    return found;
  }
  size_t etcds() const { return running_programs("--data-dir=" + temporary_.path()).size(); }
};

TEST_F(EtcdOnHosts, ItEndsWithTheJob) {
  EXPECT_EQ(run(3, {"--store", "etcd"}, false), std::vector<int>(3, 0));
  EXPECT_EQ(folders(), std::vector<std::string>());
  EXPECT_EQ(etcds(), 0U);
}

// The host that serves the rendezvous and the first etcd is gone, with all its processes. The
// others train on by what is left, and no sample is lost or used twice.
TEST_F(EtcdOnHosts, SlowTheJobSurvivesTheHostOfTheFirst) {
  const auto hosts = Hosts::make(3);
  ASSERT_NE(hosts, nullptr);
  const TempFolder commits;
  std::vector<pid_t> launchers;
  for (int host = 0; host < 3; ++host) {
    launchers.push_back(
        start(*hosts, host, {"--nnodes", "2:3", "--store", "etcd", "--ledger-log", commits.path()},
              {kSampleWorker, "8", "20"}));
  }
  const auto steps = [&](const std::string& file) {
    std::ifstream log(commits.file(file));
    return std::count(std::istreambuf_iterator<char>(log), {}, '\n');
  };
  ASSERT_TRUE(comes_true([&] {
    return wrote(0, "3 members from step") && steps("worker-0.commits") > 60;
  })) << output(0)
      << output(1) << output(2);
  EXPECT_EQ(etcds(), 3U);
  kill(launchers[0], SIGKILL);
  ASSERT_TRUE(hosts->cut(0));
  EXPECT_EQ(wait(launchers[0]), -SIGKILL);
  for (const int host : {1, 2}) {
    EXPECT_EQ(wait(launchers[static_cast<size_t>(host)]), 0) << output(host);
    EXPECT_TRUE(wrote(host, "2 members from step")) << output(host);
  }
  std::vector<std::string> logs;
  for (const auto& entry : std::filesystem::directory_iterator(commits.path())) {
    logs.push_back(entry.path().string());
  }
  EXPECT_EQ(logs.size(), 3U);
  ASSERT_OK_AND_ASSIGN(const CommitAudit audit, audit_commit_logs(logs, {.complete = true}));
  EXPECT_EQ(audit.missing + audit.repeated + audit.problems, 0U)
      << (audit.first_problems.empty() ? "" : audit.first_problems.front());
  EXPECT_EQ(audit.epochs, 8U);
  EXPECT_EQ(folders(), std::vector<std::string>{"hosts"}) << "more than what the killed one left";
  EXPECT_EQ(etcds(), 0U);
}

}  // namespace
}  // namespace ffdl::testing
