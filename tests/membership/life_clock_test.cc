#include "membership/life_clock.h"

#include <gtest/gtest.h>

#include "support/times.h"

namespace ffdl::membership {
namespace {

using namespace std::chrono_literals;
using testing::at;
using Standing = LifeClock::Standing;

MembershipOptions times() {
  MembershipOptions options;
  options.lease = 300ms;
  options.fence_after = 30s;
  return options;
}

// Looks at the clock all the time from `from` until before `to`.
void look_until(LifeClock& clock, Duration from, Duration to) {
  for (Duration now = from; now < to; now += 75ms) clock.look(at(now));
}

TEST(LifeClock, IsFencedWhenTheStoreIsSilent) {
  LifeClock clock(times(), at(0s));
  look_until(clock, 0s, 30s);
  EXPECT_EQ(clock.look(at(30s - 1ns)), Standing::kAlive);
  EXPECT_EQ(clock.next(), at(30s));
  EXPECT_EQ(clock.look(at(30s)), Standing::kFenced);
  EXPECT_EQ(clock.why_not_renewed(), "the store did not answer for 30 s");
  EXPECT_FALSE(clock.renew(at(30s)));
  EXPECT_EQ(clock.look(at(31s)), Standing::kFenced);
}

TEST(LifeClock, ARenewalBeginsTheFenceAgain) {
  LifeClock clock(times(), at(0s));
  look_until(clock, 0s, 20s);
  EXPECT_FALSE(clock.renew(at(15s)));  // none was asked for
  EXPECT_EQ(clock.next(), at(45s));
  EXPECT_FALSE(clock.renew(at(14s)));  // an answer that came late
  EXPECT_EQ(clock.next(), at(45s));
}

// The renewal began before the fence; the answer came after it, and no look was between the two.
TEST(LifeClock, ALateRenewalDoesNotCount) {
  LifeClock clock(times(), at(0s));
  look_until(clock, 0s, 30s);
  EXPECT_FALSE(clock.renew(at(30s)));
  EXPECT_EQ(clock.look(at(30s)), Standing::kFenced);
}

struct GapCase {
  const char* what;
  Duration last_look;
  Duration next_look;
  Standing standing;
  Duration stood_still;
};

TEST(LifeClock, AStandstillIsAGapLongerThanALease) {
  const GapCase cases[] = {
      {"shorter than a lease", 10s, 10s + 300ms, Standing::kAlive, 0s},
      {"longer", 10s, 10s + 301ms, Standing::kAlive, 301ms},
      {"up to the fence", 10s, 30s - 1ns, Standing::kAlive, 20s - 1ns},
      {"to the fence", 10s, 30s, Standing::kAsks, 20s},
      {"over it", 29s, 3629s, Standing::kAsks, 3600s},
      {"over it, shorter than a lease", 30s - 150ms, 30s + 150ms, Standing::kFenced, 0s},
  };
  for (const GapCase& one : cases) {
    SCOPED_TRACE(one.what);
    LifeClock clock(times(), at(0s));
    look_until(clock, 0s, one.last_look);
    clock.look(at(one.last_look));
    EXPECT_EQ(clock.look(at(one.next_look)), one.standing);
    EXPECT_EQ(clock.stood_still(), one.stood_still);
    EXPECT_EQ(clock.stood_still_since_renewal(), one.stood_still);
    EXPECT_EQ(clock.woke(), one.stood_still > 0s ? at(one.next_look) : Time::min());
  }
}

TEST(LifeClock, GoesOnInTheSameLifeAsOftenAsItStandsStill) {
  LifeClock clock(times(), at(0s));
  for (const Duration woke : {3600s, 7200s}) {
    EXPECT_EQ(clock.look(at(woke)), Standing::kAsks);
    EXPECT_EQ(clock.next(), at(woke + 6s));
    EXPECT_EQ(clock.look(at(woke + 50ms)), Standing::kAsks);
    EXPECT_TRUE(clock.renew(at(woke + 60ms)));
    EXPECT_EQ(clock.look(at(woke + 70ms)), Standing::kAlive);
    EXPECT_EQ(clock.next(), at(woke + 60ms + 30s));
    EXPECT_FALSE(clock.renew(at(woke + 80ms)));  // the next one is a renewal as any other
    EXPECT_EQ(clock.stood_still_since_renewal(), 0s);
  }
}

TEST(LifeClock, IsFencedWhenTheStoreIsSilentAfterAStandstill) {
  LifeClock clock(times(), at(0s));
  EXPECT_EQ(clock.look(at(33s)), Standing::kAsks);
  look_until(clock, 33s, 39s);
  EXPECT_EQ(clock.look(at(39s - 1ns)), Standing::kAsks);
  EXPECT_EQ(clock.look(at(39s)), Standing::kFenced);
  EXPECT_EQ(clock.why_not_renewed(), "this process stood still for 33 s");
  EXPECT_FALSE(clock.renew(at(38s)));
}

TEST(LifeClock, AsksForALeaseAtLeast) {
  MembershipOptions options = times();
  options.lease = 10s;
  LifeClock clock(options, at(0s));
  EXPECT_EQ(clock.look(at(33s)), Standing::kAsks);
  EXPECT_EQ(clock.next(), at(43s));
}

TEST(LifeClock, AsksAgainAfterAStandstillWhileItAsks) {
  LifeClock clock(times(), at(0s));
  EXPECT_EQ(clock.look(at(33s)), Standing::kAsks);
  EXPECT_EQ(clock.look(at(100s)), Standing::kAsks);
  EXPECT_EQ(clock.next(), at(106s));
  EXPECT_EQ(clock.stood_still(), 100s);
}

// The store may have answered before the standstill: it says nothing about that time.
TEST(LifeClock, ARenewalFromBeforeTheStandstillIsNoAnswer) {
  LifeClock clock(times(), at(0s));
  look_until(clock, 0s, 20s);
  clock.look(at(20s));
  EXPECT_EQ(clock.look(at(100s)), Standing::kAsks);
  EXPECT_FALSE(clock.renew(at(19s)));
  EXPECT_EQ(clock.look(at(100s)), Standing::kAsks);
  EXPECT_TRUE(clock.renew(at(100s)));
  EXPECT_EQ(clock.look(at(100s)), Standing::kAlive);
}

// The same, where the reply is read before any look.
TEST(LifeClock, AsksAlsoIfSuchARenewalIsReadFirst) {
  LifeClock clock(times(), at(0s));
  look_until(clock, 0s, 20s);
  clock.look(at(20s));
  EXPECT_FALSE(clock.renew(at(19s)));
  EXPECT_EQ(clock.look(at(100s)), Standing::kAsks);
}

// Half of the time decides which of the two is named.
TEST(LifeClock, NamesTheLongerReason) {
  for (const bool stood_long : {true, false}) {
    LifeClock clock(times(), at(0s));
    const Duration before = stood_long ? 10s : 20s;
    look_until(clock, 0s, before);
    clock.look(at(before));
    EXPECT_EQ(clock.look(at(30s)), Standing::kAsks);
    EXPECT_EQ(clock.why_not_renewed(), stood_long ? "this process stood still for 20 s"
                                                  : "the store did not answer for 30 s");
  }
}

}  // namespace
}  // namespace ffdl::membership
