#include "base/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/exit_code.h"
#include "support/fork_child.h"
#include "support/temp_folder.h"
#include "support/time_namespace.h"

namespace ffdl::base {
namespace {

// A child process that has reported its mark and sleeps until it is killed.
struct Sleeper {
  Sleeper() {
    int ends[2];
    if (::pipe(ends) != 0) return;
    process = testing::fork_child();
    if (process == 0) {
      const std::string own = mark_of_this_process();
      if (::write(ends[1], own.data(), own.size()) < 0) ::_exit(1);
      ::close(ends[1]);
      while (true) ::pause();
    }
    ::close(ends[1]);
    char text[256];
    for (ssize_t n = 0; (n = ::read(ends[0], text, sizeof text)) > 0;) {
      mark.append(text, static_cast<size_t>(n));
    }
  }
  ~Sleeper() { reap(); }
  void kill() const {
    ::kill(process, SIGKILL);
    siginfo_t ended{};
    ::waitid(P_PID, static_cast<id_t>(process), &ended, WEXITED | WNOWAIT);  // still a zombie
  }
  void reap() {
    if (process <= 0) return;
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
    process = 0;
  }

  pid_t process = 0;
  std::string mark;
};

std::string with_part(std::string mark, size_t part, const std::string& value) {
  size_t begin = 0;
  for (size_t i = 0; i < part; ++i) begin = mark.find(':', begin) + 1;
  const size_t end = std::min(mark.find(':', begin), mark.size());
  return mark.replace(begin, end - begin, value);
}

TEST(ProcessWatch, SeesTheEnd) {
  Sleeper sleeper;
  ASSERT_FALSE(sleeper.mark.empty());
  const auto watch = ProcessWatch::of(sleeper.mark);
  ASSERT_TRUE(watch.has_value());
  EXPECT_EQ(watch->process(), sleeper.process);
  EXPECT_FALSE(watch->is_gone());
  sleeper.kill();
  EXPECT_TRUE(watch->is_gone());
  const auto of_zombie = ProcessWatch::of(sleeper.mark);
  ASSERT_TRUE(of_zombie.has_value());
  EXPECT_TRUE(of_zombie->is_gone());
  sleeper.reap();
  const auto late = ProcessWatch::of(sleeper.mark);
  ASSERT_TRUE(late.has_value());
  EXPECT_TRUE(late->is_gone());
}

// The kernel reuses the number of a process that has ended.
TEST(ProcessWatch, ANumberThatIsAnotherProcessNowIsNotThatOne) {
  const auto watch = ProcessWatch::of(with_part(mark_of_this_process(), 1, "1"));
  ASSERT_TRUE(watch.has_value());
  EXPECT_TRUE(watch->is_gone());
}

TEST(ProcessWatch, WhatCannotBeWatchedIsNotWatched) {
  const std::string own = mark_of_this_process();
  EXPECT_TRUE(ProcessWatch::of(own).has_value());
  for (const std::string& mark :
       {std::string(), std::string("1"), std::string("1:2"),
        with_part(own, 2, "17"),  // of another namespace
        own + "0",                // of another boot, so perhaps of another machine
        with_part(own, 0, "-1"), with_part(own, 0, "one"), with_part(own, 0, "99999999999999")}) {
    EXPECT_FALSE(ProcessWatch::of(mark).has_value()) << mark;
  }
}

// Without a /proc of the own PID namespace, a process has another number in it.
TEST(ProcessWatch, AProcessIsWatchedWithTheProcOfAnotherPidNamespace) {
  constexpr int kNoPidNamespace = 77;
  const pid_t maker = testing::fork_child();
  if (maker == 0) {
    if (::unshare(CLONE_NEWPID) != 0) ::_exit(kNoPidNamespace);
    const pid_t first = testing::fork_child();
    if (first == 0) {
      const auto watch = ProcessWatch::of(mark_of_this_process());
      ::_exit(::getpid() == 1 && watch && !watch->is_gone() ? 0 : 1);
    }
    ::_exit(testing::exit_code(first));
  }
  const int outcome = testing::exit_code(maker);
  if (outcome == kNoPidNamespace) GTEST_SKIP() << "a new pid namespace needs root";
  EXPECT_EQ(outcome, 0);
}

// A time namespace shows other start times. The watch would mistake them for a later process.
TEST(ProcessWatch, AProcessOfAnotherTimeNamespaceIsNotWatched) {
  const std::string own = mark_of_this_process();
  const int outcome =
      testing::in_time_namespace([&] { return ProcessWatch::of(own).has_value() ? 1 : 0; });
  if (outcome == testing::kNoTimeNamespace) GTEST_SKIP() << "there are no time namespaces here";
  EXPECT_EQ(outcome, 0);
}

TEST(LockHolder, IsTheProcessThatHasTheLock) {
  const TempFolder folder;
  const std::string path = folder.write("lock", "");
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  EXPECT_EQ(lock_holder(fd), 0);
  EXPECT_EQ(describe_lock_holder(fd), "another process");
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  const int other = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  EXPECT_EQ(lock_holder(other), ::getpid());
  EXPECT_EQ(describe_lock_holder(other), "process " + std::to_string(::getpid()));
  EXPECT_EQ(lock_holder(-1), 0);
  ::close(other);
  ::close(fd);
}

}  // namespace
}  // namespace ffdl::base
