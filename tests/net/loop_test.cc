#include "net/loop.h"

#include <gtest/gtest.h>

#include <future>

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

// Both timers were due before the loop looked at either.
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
