#include "base/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <condition_variable>
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

}  // namespace
}  // namespace ffdl
