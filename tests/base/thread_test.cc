#include "base/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <atomic>
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
  constexpr int kNice = 3;
  std::array<uint64_t, 6> attributes{};  // as sched_getattr(2) lays them out
  base::Thread thread("prompt", [&](StopToken) {
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
    base::wake_promptly();
    ::syscall(SYS_sched_getattr, 0, attributes.data(), sizeof attributes, 0);
  });
  thread.join();
  EXPECT_EQ(attributes[2] & 0xffff'ffff, uint64_t{kNice});
  EXPECT_EQ(attributes[3], kernel_knows_slices() ? 100'000U : 0U);
}

}  // namespace
}  // namespace ffdl
