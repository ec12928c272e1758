#include "shm/futex.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/limits.h"

namespace ffdl::shm {
namespace {

using namespace std::chrono_literals;

TEST(Doorbell, GivesUpAtTheDeadline) {
  Doorbell bell = {};
  const Time begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(bell.wait_until([] { return false; }, deadline_in(20ms)));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 20ms);
}

TEST(Doorbell, ReadyNeedsNoWait) {
  Doorbell bell = {};
  EXPECT_TRUE(bell.wait_until([] { return true; }, Time::min()));
}

// Two threads pass a number back and forth. A lost wake would cost the limit of a sleep every time.
// A busy machine passes it fewer times.
TEST(Doorbell, LosesNoWake) {
  const Time end = deadline_in(30s);
  std::atomic<uint32_t> rounds = 20'000;
  std::atomic<uint32_t> late = 0;
  Doorbell bell = {};
  std::atomic<uint32_t> turn = 0;
  const auto play = [&](uint32_t parity) {
    for (uint32_t i = parity; i < rounds.load(); i += 2) {
      const Time begin = std::chrono::steady_clock::now();
      ASSERT_TRUE(bell.wait_until([&] { return turn.load() == i; }, deadline_in(60s)));
      const Time now = std::chrono::steady_clock::now();
      if (now - begin >= base::kFutexSleepMax) ++late;
      if (parity == 0 && now > end) rounds = i + 2;  // the other thread has one turn more
      turn.store(i + 1);
      bell.ring();
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  EXPECT_EQ(turn.load(), rounds.load());
  EXPECT_LT(late.load(), rounds.load() / 10);
}

TEST(Doorbell, WakesManySleepers) {
  Doorbell bell = {};
  std::atomic<bool> open = false;
  std::atomic<int> waiting = 0;
  std::atomic<int> woken = 0;
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 4; ++i) {
    sleepers.emplace_back([&] {
      ++waiting;
      woken += bell.wait_until([&] { return open.load(); }, deadline_in(60s));
    });
  }
  while (waiting < 4 || bell.sleepers.load() == 0) std::this_thread::yield();
  open.store(true);
  bell.ring();
  for (std::thread& sleeper : sleepers) sleeper.join();
  EXPECT_EQ(woken, 4);
}

}  // namespace
}  // namespace ffdl::shm
