#include "base/thread.h"
#include "support/fork_child.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <mutex>

namespace ffdl {
namespace {

TEST(Thread, CarriesItsNameCutToWhatTheKernelShows) {
  std::string name;
  base::Thread thread("a name of twenty ch.", [&](StopToken) {
    char text[16];
    pthread_getname_np(pthread_self(), text, sizeof text);
    name = text;
  });
  thread.join();
  EXPECT_EQ(name, "a name of twent");
}

TEST(Thread, TheDestructorAsksItToStopAndWaits) {
  std::atomic<bool> ended = false;
  {
    base::Thread thread("waiter", [&](StopToken stop) {
      std::mutex mutex;
      std::condition_variable_any never;
      std::unique_lock lock(mutex);
      never.wait(lock, stop, [] { return false; });
      ended = true;
    });
  }
  EXPECT_TRUE(ended);
}

// Runs in a child of another uid. Root has no limit of processes, and other processes of a uid
// count too.
int begin_without_room() {
  const rlimit none = {1, 1};
  if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) return 2;
  if (::setrlimit(RLIMIT_NPROC, &none) != 0) return 3;
  const auto thread = base::Thread::start("one", [](StopToken) {});
  if (thread.status().code() != StatusCode::kExhausted) return 4;
  if (thread.status().message().find("ulimit -u") == std::string_view::npos) return 5;
  return system_runtime().spawn("two", [](StopToken) {}) == nullptr ? 0 : 6;
}

TEST(Thread, WithoutRoomForOneMoreItIsExhaustedAndTheProcessLives) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can become another user";
  const pid_t child = testing::fork_child();
  if (child == 0) ::_exit(begin_without_room());
  int state = 0;
  ASSERT_EQ(::waitpid(child, &state, 0), child);
  ASSERT_TRUE(WIFEXITED(state)) << "signal " << WTERMSIG(state);
  EXPECT_EQ(WEXITSTATUS(state), 0);
}

TEST(Thread, AWriteAboveTheLimitOfFilesFailsAndSendsNoSignal) {
  const pid_t child = testing::fork_child();
  if (child == 0) {
    int error = 0;
    const rlimit none = {0, 0};
    ::signal(SIGXFSZ, SIG_DFL);
    if (::setrlimit(RLIMIT_FSIZE, &none) != 0) ::_exit(2);
    const int file = ::memfd_create("limited", MFD_CLOEXEC);
    base::Thread thread("writer", [&](StopToken) {
      if (::write(file, "x", 1) < 0) error = errno;
    });
    thread.join();
    ::_exit(error == EFBIG ? 0 : 3);
  }
  int state = 0;
  ASSERT_EQ(::waitpid(child, &state, 0), child);
  ASSERT_TRUE(WIFEXITED(state)) << "signal " << WTERMSIG(state);
  EXPECT_EQ(WEXITSTATUS(state), 0);
}

TEST(Thread, OneThatWasNeverStartedCanBeJoined) {
  base::Thread thread;
  thread.request_stop();
  thread.join();
}

bool kernel_knows_slices() {
  utsname kernel{};
  ::uname(&kernel);
  int major = 0, minor = 0;
  std::sscanf(kernel.release, "%d.%d", &major, &minor);
  return major > 6 || (major == 6 && minor >= 12);
}

TEST(Thread, WakesPromptlyAndKeepsItsNiceness) {
  const int nice = std::min(::getpriority(PRIO_PROCESS, 0) + 3, 19);
  std::array<uint64_t, 6> attributes{};  // the layout of sched_getattr(2)
  base::Thread thread("prompt", [&](StopToken) {
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), nice);
    base::wake_promptly();
    ::syscall(SYS_sched_getattr, 0, attributes.data(), sizeof attributes, 0);
  });
  thread.join();
  EXPECT_EQ(attributes[2] & 0xffff'ffff, static_cast<uint32_t>(nice));
  EXPECT_EQ(attributes[3], kernel_knows_slices() ? 100'000U : 0U);
}

}  // namespace
}  // namespace ffdl
