#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "ffdl/runtime.h"

namespace ffdl {
namespace {

using std::chrono::milliseconds;

TEST(SystemRuntime, EventWaitsUntilSetOrDeadline) {
  Runtime& runtime = system_runtime();
  auto event = runtime.make_event();
  const Time before = runtime.now();
  EXPECT_FALSE(event->wait_until(before + milliseconds(5)));
  EXPECT_GE(runtime.now() - before, milliseconds(5));
  event->set();
  EXPECT_TRUE(event->wait_until(kNoDeadline));
  event->reset();
  EXPECT_FALSE(event->wait_until(runtime.now()));
}

TEST(SystemRuntime, TaskWakesAWaiterAndIsJoined) {
  Runtime& runtime = system_runtime();
  auto event = runtime.make_event();
  std::atomic<bool> ended = false;
  {
    auto task = runtime.spawn("waker", [&](StopToken stop) {
      event->set();
      while (!stop.stop_requested()) event->wait_until(runtime.now() + milliseconds(1));
      ended = true;
    });
    EXPECT_TRUE(event->wait_until(deadline_in(std::chrono::seconds(60))));
  }
  EXPECT_TRUE(ended);
}

TEST(SystemRuntime, RandomNumbersDiffer) {
  std::set<uint64_t> seen;
  for (int i = 0; i < 64; ++i) seen.insert(system_runtime().random());
  EXPECT_EQ(seen.size(), 64U);
}

}  // namespace
}  // namespace ffdl
