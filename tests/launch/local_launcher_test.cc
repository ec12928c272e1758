#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "launch/launcher.h"
#include "support/exit_code.h"
#include "support/fork_child.h"
#include "support/process_state.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/stop_process.h"
#include "support/temp_folder.h"

namespace ffdl::launch {
namespace {

using namespace std::chrono_literals;

void pause_for(Duration time) { system_runtime().make_event()->wait_until(deadline_in(time)); }

// Waits until a worker has written the file, and returns its text.
std::string wait_for_text(const std::string& path) {
  const Time patience = deadline_in(60s);
  const auto never = system_runtime().make_event();
  std::string text;
  while (deadline_in(0s) < patience) {
    std::ifstream(path) >> text;
    if (!text.empty()) break;
    never->wait_until(deadline_in(2ms));
  }
  return text;
}

void wait_until_gone(pid_t process) {
  EXPECT_TRUE(comes_true([&] { return !testing::is_running(process); }));
}

class LocalLauncherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = make_local_launcher(*exited_);
    ASSERT_OK(made);
    launcher_ = std::move(made).value();
  }
  WorkerCommand shell(const std::string& name, const std::string& script) const {
    return {.name = name,
            .argv = {"sh", "-c", script},
            .folder = folder_.path(),
            .log_file = folder_.file(name + ".log")};
  }
  WorkerExit next_exit() {
    while (true) {
      exited_->reset();
      if (auto exit = launcher_->poll_exit()) return *exit;
      if (!exited_->wait_until(deadline_in(60s))) return {"nobody ended"};
    }
  }

  const TempFolder folder_;
  const std::unique_ptr<Event> exited_ = system_runtime().make_event();
  std::unique_ptr<Launcher> launcher_;
};

TEST_F(LocalLauncherTest, TellsHowEachEnded) {
  ASSERT_OK_AND_ASSIGN(const int64_t good, launcher_->start(shell("good", "exit 0")));
  EXPECT_EQ(next_exit(), (WorkerExit{"good", good, 0, 0}));
  ASSERT_OK_AND_ASSIGN(const int64_t bad, launcher_->start(shell("bad", "exit 3")));
  EXPECT_EQ(next_exit(), (WorkerExit{"bad", bad, 3, 0}));
  ASSERT_OK_AND_ASSIGN(const int64_t killed, launcher_->start(shell("killed", "kill -9 $$")));
  EXPECT_EQ(next_exit(), (WorkerExit{"killed", killed, 0, SIGKILL}));
  EXPECT_EQ(launcher_->poll_exit(), std::nullopt);
}

TEST_F(LocalLauncherTest, ANameIsUsedByOneAtATime) {
  ASSERT_OK(launcher_->start(shell("w", "sleep 1000")));
  EXPECT_FAILS(launcher_->start(shell("w", "true")), StatusCode::kConflict, "'w'");
  ASSERT_OK(launcher_->stop("w", 0s));
  EXPECT_EQ(next_exit().signal, SIGKILL);
  EXPECT_OK(launcher_->start(shell("w", "true")));
}

TEST_F(LocalLauncherTest, StopAsksFirst) {
  ASSERT_OK(launcher_->start(
      shell("w", "trap 'exit 5' TERM; echo ready >flag; while :; do sleep 0.01; done")));
  EXPECT_EQ(wait_for_text(folder_.file("flag")), "ready");
  ASSERT_OK(launcher_->stop("w", 1h));
  EXPECT_EQ(next_exit().exit_code, 5);
  EXPECT_FAILS(launcher_->stop("w", 1h), StatusCode::kNotFound, "'w'");
}

TEST_F(LocalLauncherTest, WhoDoesNotEndWithinTheGraceIsKilled) {
  ASSERT_OK(
      launcher_->start(shell("w", "trap '' TERM; echo ready >flag; while :; do sleep 0.01; done")));
  EXPECT_EQ(wait_for_text(folder_.file("flag")), "ready");
  ASSERT_OK(launcher_->stop("w", 50ms));
  EXPECT_EQ(next_exit().signal, SIGKILL);
}

TEST_F(LocalLauncherTest, WhatAWorkerHasStartedEndsWithIt) {
  ASSERT_OK(launcher_->start(shell("w", "sleep 1000 & echo $! >child; exit 0")));
  EXPECT_EQ(next_exit().exit_code, 0);
  wait_until_gone(std::stoi(wait_for_text(folder_.file("child"))));
}

TEST_F(LocalLauncherTest, ItsEndIsThatOfItsWorkers) {
  ASSERT_OK_AND_ASSIGN(const int64_t process,
                       launcher_->start(shell("w", "sleep 1000 & echo $! >child; wait")));
  const pid_t child = std::stoi(wait_for_text(folder_.file("child")));
  launcher_.reset();
  EXPECT_FALSE(testing::is_running(static_cast<pid_t>(process)));
  wait_until_gone(child);
}

// Its children are in its process group.
TEST_F(LocalLauncherTest, SuspendStopsAllAndLetsThemGoOn) {
  ASSERT_OK_AND_ASSIGN(const int64_t a,
                       launcher_->start(shell("a", "sleep 1000 & echo $! >child; wait")));
  ASSERT_OK_AND_ASSIGN(const int64_t b,
                       launcher_->start(shell("b", "until [ -e go ]; do sleep 0.01; done")));
  const pid_t child = std::stoi(wait_for_text(folder_.file("child")));
  launcher_->suspend([&](size_t processes) {
    EXPECT_EQ(processes, 2U);
    for (const int64_t process : {a, b, int64_t{child}}) {
      EXPECT_TRUE(comes_true([&] { return testing::is_stopped(static_cast<pid_t>(process)); }));
    }
    folder_.write("go", "");
  });
  EXPECT_EQ(next_exit(), (WorkerExit{"b", b, 0, 0}));
  EXPECT_TRUE(testing::is_running(static_cast<pid_t>(a)));
  EXPECT_TRUE(comes_true([&] { return !testing::is_stopped(child); }));
}

TEST_F(LocalLauncherTest, NoWorkerStartsWhileItIsSuspended) {
  std::unique_ptr<Task> asks;
  launcher_->suspend([&](size_t processes) {
    EXPECT_EQ(processes, 0U);
    asks = system_runtime().spawn("asks", [&](const StopToken&) {
      EXPECT_OK(launcher_->start(shell("w", "echo up >flag")));
    });
    pause_for(200ms);
    EXPECT_FALSE(std::filesystem::exists(folder_.file("flag")));
  });
  EXPECT_EQ(next_exit().exit_code, 0);
  EXPECT_EQ(wait_for_text(folder_.file("flag")), "up");
}

// Asked to end, it writes the file 'asked', and ends with 5 once there is the file 'go'.
constexpr const char* kEndsLater =
    "trap 'echo yes >asked; until [ -e go ]; do sleep 0.01; done; exit 5' TERM; echo ready >flag; "
    "while :; do sleep 0.01; done";

TEST_F(LocalLauncherTest, GraceDoesNotPassWhileItIsSuspended) {
  ASSERT_OK(launcher_->start(shell("w", kEndsLater)));
  EXPECT_EQ(wait_for_text(folder_.file("flag")), "ready");
  ASSERT_OK(launcher_->stop("w", 5s));
  EXPECT_EQ(wait_for_text(folder_.file("asked")), "yes");
  launcher_->suspend([](size_t /*processes*/) { pause_for(6s); });
  folder_.write("go", "");
  EXPECT_EQ(next_exit().exit_code, 5);
}

TEST_F(LocalLauncherTest, GraceDoesNotPassWhileItsProcessStandsStill) {
  launcher_.reset();  // a process of one thread forks more reliably
  const pid_t holder = testing::fork_child();
  if (holder == 0) {
    const auto exited = system_runtime().make_event();
    auto launcher = make_local_launcher(*exited);
    if (!launcher.ok() || !(*launcher)->start(shell("w", kEndsLater)).ok()) ::_exit(101);
    wait_for_text(folder_.file("flag"));
    if (!(*launcher)->stop("w", 5s).ok()) ::_exit(102);
    exited->wait_until(deadline_in(60s));
    const auto exit = (*launcher)->poll_exit();
    ::_exit(exit ? exit->exit_code + exit->signal : 103);
  }
  EXPECT_EQ(wait_for_text(folder_.file("asked")), "yes");
  testing::stop_process(holder);
  pause_for(6s);
  ::kill(holder, SIGCONT);
  folder_.write("go", "");
  EXPECT_EQ(testing::exit_code(holder), 5);
}

// A worker can be requested from any thread, since another thread starts the process.
TEST_F(LocalLauncherTest, WorkersOutliveTheThreadThatAskedForThem) {
  int64_t process = 0;
  {
    const auto task = system_runtime().spawn("asks", [&](const StopToken&) {
      process = launcher_->start(shell("w", "echo up >flag; sleep 1000")).value();
    });
  }
  EXPECT_EQ(wait_for_text(folder_.file("flag")), "up");
  EXPECT_TRUE(testing::is_running(static_cast<pid_t>(process)));
  EXPECT_EQ(launcher_->poll_exit(), std::nullopt);
}

TEST_F(LocalLauncherTest, AKilledLauncherTakesItsWorkersAlong) {
  launcher_.reset();  // a process of one thread forks more reliably
  const pid_t holder = testing::fork_child();
  if (holder == 0) {
    const auto exited = system_runtime().make_event();
    auto launcher = make_local_launcher(*exited);
    if (!launcher.ok()) ::_exit(1);
    if (!(*launcher)->start(shell("w", "echo $$ >worker; sleep 1000")).ok()) ::_exit(2);
    ::pause();
  }
  const pid_t worker = std::stoi(wait_for_text(folder_.file("worker")));
  EXPECT_TRUE(testing::is_running(worker));
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  wait_until_gone(worker);
}

}  // namespace
}  // namespace ffdl::launch
