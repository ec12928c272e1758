#include "net/loop.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>

#include "support/fork_child.h"
#include "support/sanitized.h"
#include "support/status_matchers.h"

namespace ffdl::net {
namespace {

using namespace std::chrono_literals;

TEST(Loop, RunsWhatIsPostedInOrderOnOneThread) {
  ASSERT_OK_AND_ASSIGN(auto loop, Loop::start("test"));
  std::vector<std::thread::id> threads;
  std::promise<void> done;
  for (int i = 0; i < 3; ++i) loop->post([&] { threads.push_back(std::this_thread::get_id()); });
  loop->post([&] { done.set_value(); });
  done.get_future().wait();
  ASSERT_EQ(threads.size(), 3U);
  EXPECT_EQ(threads[0], threads[2]);
  EXPECT_NE(threads[0], std::this_thread::get_id());
}

TEST(Loop, WithoutDescriptorsItIsExhaustedAndTheProcessLives) {
  FFDL_SKIP_WITHOUT_DESCRIPTORS_FOR_UBSAN();
  const pid_t child = testing::fork_child();
  if (child == 0) {
    // Tries each number of free descriptors, from none to enough.
    const int first = ::dup(STDERR_FILENO);
    for (int free = 0; free < 8; ++free) {
      const rlimit few = {static_cast<rlim_t>(first + free), 64};
      if (::setrlimit(RLIMIT_NOFILE, &few) != 0) ::_exit(2);
      const auto loop = Loop::start("test");
      if (loop.ok()) ::_exit(free > 0 ? 0 : 3);
      if (loop.status().code() != StatusCode::kExhausted) ::_exit(4);
    }
    ::_exit(5);
  }
  int state = 0;
  ASSERT_EQ(::waitpid(child, &state, 0), child);
  ASSERT_TRUE(WIFEXITED(state)) << "signal " << WTERMSIG(state);
  EXPECT_EQ(WEXITSTATUS(state), 0);
}

TEST(Loop, WhatIsPostedAfterItsEndNeverRuns) {
  ASSERT_OK_AND_ASSIGN(auto loop, Loop::start("test"));
  loop->stop();
  bool ran = false;
  loop->post([&] { ran = true; });
  loop->stop();
  EXPECT_FALSE(ran);
}

TEST(Timer, CallsOnceNotBeforeItsTime) {
  ASSERT_OK_AND_ASSIGN(auto loop, Loop::start("test"));
  Timer timer(*loop);
  std::promise<Time> called;
  const Time at = std::chrono::steady_clock::now() + 5ms;
  loop->post([&] { timer.start(at, [&] { called.set_value(std::chrono::steady_clock::now()); }); });
  EXPECT_GE(called.get_future().get(), at);
  loop->stop();
}

// Both timers were due before the loop checked either.
TEST(Timer, ACallOnItsWayIsVoidWhenTheTimerIsStartedAnewOrGone) {
  ASSERT_OK_AND_ASSIGN(auto loop, Loop::start("test"));
  const Time past = std::chrono::steady_clock::now() - 1s;
  Timer first(*loop);
  auto second = std::make_unique<Timer>(*loop);
  auto gone = std::make_unique<Timer>(*loop);
  std::vector<std::string> calls;
  std::promise<void> done;
  loop->post([&] {
    first.start(past, [&] {
      calls.push_back("first");
      second->start(past, [&] {
        calls.push_back("anew");
        done.set_value();
      });
      gone.reset();
    });
    second->start(past, [&] { calls.push_back("void"); });
    gone->start(past, [&] { calls.push_back("gone"); });
  });
  done.get_future().wait();
  loop->stop();
  EXPECT_EQ(calls, (std::vector<std::string>{"first", "anew"}));
}

}  // namespace
}  // namespace ffdl::net
