#include "cli/init_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <functional>
#include <string>

#include "support/exit_code.h"
#include "support/fork_child.h"
#include "support/process_state.h"
#include "support/program.h"
#include "support/programs.h"
#include "support/started_program.h"
#include "support/temp_folder.h"

namespace ffdl::cli {
namespace {

constexpr std::array kForwarded = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT};

// A pipe that carries numbers between processes.
class NumberPipe {
 public:
  NumberPipe() { EXPECT_EQ(::pipe2(ends_.data(), O_CLOEXEC), 0); }
  ~NumberPipe() {
    close_input();
    ::close(ends_[0]);
  }
  NumberPipe(const NumberPipe&) = delete;
  NumberPipe& operator=(const NumberPipe&) = delete;

  void put(int number) const { static_cast<void>(::write(ends_[1], &number, sizeof number)); }
  // Waits for a number; -1: no process can write one any more.
  int take() const {
    int number = 0;
    return ::read(ends_[0], &number, sizeof number) == sizeof number ? number : -1;
  }
  void close_input() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  std::array<int, 2> ends_ = {-1, -1};
};

// Starts an init whose child runs `body` and ends with its result. As process 1 of a container, the
// init inherits the orphans of its child.
pid_t start_init(const std::function<int()>& body) {
  const pid_t init = testing::fork_child();
  if (init != 0) return init;
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const auto split = become_init();
  if (!split.ok()) ::_exit(99);
  ::_exit(split->has_value() ? **split : body());
}

// Leaves orphans, which end by themselves. Returns 0 once the init has reaped them all.
int leave_orphans() {
  constexpr int kOrphans = 20;
  NumberPipe processes;
  NumberPipe gate;
  for (int i = 0; i < kOrphans; ++i) {
    const pid_t helper = ::fork();
    if (helper == 0) {
      const pid_t orphan = ::fork();
      if (orphan == 0) {
        gate.close_input();
        gate.take();  // ends when the body has closed the gate
      } else {
        processes.put(orphan);
      }
      ::_exit(0);
    }
    ::waitpid(helper, nullptr, 0);
  }
  gate.close_input();
  for (int i = 0; i < kOrphans; ++i) {
    const pid_t orphan = processes.take();
    const auto is_reaped = [&] { return ::kill(orphan, 0) != 0 && errno == ESRCH; };
    if (orphan <= 0 || !comes_true(is_reaped)) return 1;
  }
  return 0;
}

TEST(InitProcessTest, ReapsTheOrphansOfItsChild) {
  EXPECT_EQ(testing::exit_code(start_init(leave_orphans)), 0);
}

TEST(InitProcessTest, EndsAsItsChildDoes) {
  EXPECT_EQ(testing::exit_code(start_init([] { return 0; })), 0);
  EXPECT_EQ(testing::exit_code(start_init([] { return 7; })), 7);
  EXPECT_EQ(testing::exit_code(start_init([] { return ::raise(SIGKILL); })), 128 + SIGKILL);
}

TEST(InitProcessTest, ForwardsSignals) {
  for (const int signal : kForwarded) {
    NumberPipe ready;
    const pid_t init = start_init([&] {
      sigset_t set;
      sigemptyset(&set);
      for (const int each : kForwarded) sigaddset(&set, each);
      ::sigprocmask(SIG_BLOCK, &set, nullptr);
      ready.put(1);
      int received = 0;
      ::sigwait(&set, &received);
      return received;
    });
    ready.close_input();
    EXPECT_EQ(ready.take(), 1);
    ::kill(init, signal);
    EXPECT_EQ(testing::exit_code(init), signal);
  }
}

TEST(InitProcessTest, AStoppedChildHasNotEnded) {
  const NumberPipe processes;
  const pid_t init = start_init([&] {
    processes.put(::getpid());
    ::raise(SIGSTOP);
    return 5;
  });
  const pid_t child = processes.take();
  EXPECT_TRUE(comes_true([&] { return testing::process_state(child).letter == 'T'; }));
  EXPECT_EQ(::waitpid(init, nullptr, WNOHANG), 0);
  ::kill(init, SIGUSR1);  // a forwarded signal continues it; this one ends it
  EXPECT_EQ(testing::exit_code(init), 128 + SIGUSR1);
}

TEST(InitProcessTest, ItsEndIsThatOfItsChild) {
  const NumberPipe processes;
  const pid_t init = start_init([&] {
    processes.put(::getpid());
    while (true) ::pause();
    return 0;
  });
  const pid_t child = processes.take();
  ::kill(init, SIGKILL);
  EXPECT_EQ(testing::exit_code(init), -SIGKILL);
  EXPECT_TRUE(comes_true([&] { return !testing::is_running(child); }));
}

TEST(InitProcessTest, OtherProcessesDoTheirWorkThemselves) {
  Status outcome;
  int exit_code = 3;
  EXPECT_FALSE(leave_to_child(outcome, exit_code));
  EXPECT_TRUE(outcome.ok());
  EXPECT_EQ(exit_code, 3);
}

// The worker leaves orphans, and waits to be asked to leave.
TEST(InitProcessTest, AJobInAContainerLeavesNoZombie) {
  const std::string space =
      "unshare --user --map-root-user --pid --fork --mount-proc --kill-child ";
  if (const auto tried = run_program(space + "true 2>&1"); tried.exit_code != 0) {
    GTEST_SKIP() << "no namespaces of users and processes can be made here: " << tried.out;
  }
  const TempFolder folder;
  const std::string worker =
      "trap \"echo asked to leave; exit 0\" TERM; for i in $(seq 20); do (sleep 0.1 &); done; "
      "echo up; while :; do sleep 0.01; done";
  StartedProgram job("env TMPDIR=" + folder.path() + " " + space + kFfdlProgram +
                         " run --job contained -- sh -c '" + worker + "'",
                     folder.file("out"));
  ASSERT_TRUE(comes_true([&] { return job.wrote("[worker-0] up"); })) << job.output();
  const auto inits = testing::children_of(job.process());
  ASSERT_EQ(inits.size(), 1U);
  EXPECT_TRUE(comes_true([&] { return testing::children_of(inits[0]).size() == 1; }))
      << testing::children_of(inits[0]).size() << " children";
  ::kill(inits[0], SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM) << job.output();
  EXPECT_TRUE(job.wrote("asked to leave")) << job.output();
}

}  // namespace
}  // namespace ffdl::cli
