// Tests a member whose process or machine stood still. The clock jumps, as after a suspension.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>

#include "ffdl/membership.h"
#include "membership/keys.h"
#include "membership/membership_records.h"
#include "support/cut_store.h"
#include "support/patient_membership.h"
#include "support/status_matchers.h"
#include "support/suspended_machine.h"
#include "support/times.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::CutStore;
using testing::soon;
using testing::SuspendedMachine;

MembershipOptions with_fence(Duration fence_after) {
  MembershipOptions options = testing::patient_membership(1s);
  options.fence_after = fence_after;
  return options;
}

// Ten seconds of it are to ask the store.
constexpr Duration kLongFence = 50s;
constexpr Duration kShortFence = 4s;

class MembershipClock : public ::testing::Test {
 protected:
  MembershipClock() : store_(open_store("mem://", system_runtime()).value()), way_in_(*store_) {}

  SuspendedMachine& machine() { return machine_; }  // "a" runs on it
  CutStore& way_in() { return way_in_; }
  std::unique_ptr<Membership> join_a(Duration fence_after = kLongFence) {
    auto joined = Membership::join(way_in_, machine_, {"a", 0, "a:1"}, with_fence(fence_after));
    EXPECT_OK(joined);
    return std::move(joined).value();
  }
  std::unique_ptr<Membership> join_b() {
    auto joined =
        Membership::join(*store_, system_runtime(), {"b", 0, "b:1"}, with_fence(kLongFence));
    EXPECT_OK(joined);
    return std::move(joined).value();
  }
  // Waits for a world of so many members after that generation, and makes it active.
  static World activate(Membership& member, int size, uint64_t after = 0) {
    World world;
    world.generation = after;
    while (world.size() != size) {
      auto next = member.wait_world_after(world.generation, soon());
      EXPECT_OK(next);
      if (!next.ok()) return {};
      world = *next;
    }
    EXPECT_OK(member.activate(world.generation, soon()));
    EXPECT_OK(member.wait_active(world.generation, soon()));
    return world;
  }
  void end_lease_of(const std::string& id) {
    const auto entry = store_->get(membership::Keys("job").candidate(id));
    ASSERT_OK(entry);
    ASSERT_OK(store_->end_lease(entry->lease));
  }
  Store& store() { return *store_; }
  Revision revision_of_record() {
    const auto entry = store_->get(membership::Keys("job").world());
    return entry.ok() ? entry->revision : 0;
  }
  bool is_candidate_a() { return store_->get(membership::Keys("job").candidate("a")).ok(); }

 private:
  const std::unique_ptr<Store> store_;
  CutStore way_in_;
  SuspendedMachine machine_;
};

TEST_F(MembershipClock, AMemberWithItsLeaseGoesOnAfterAnHour) {
  const auto a = join_a();
  const World alone = activate(*a, 1);
  machine().suspend(1h);
  EXPECT_OK(a->life_status());
  EXPECT_FALSE(a->is_fenced());
  EXPECT_EQ(a->self(), (Member{"a", 1}));
  EXPECT_EQ(a->world().generation, alone.generation);
}

// It writes the record again, so that no leader begins a lineage without it.
TEST_F(MembershipClock, AMemberWithoutWhichNoWorldWasFormedGoesOn) {
  const auto a = join_a();
  const World alone = activate(*a, 1);
  way_in().cut(CutStore::Way::kRefuses);
  end_lease_of("a");
  const Revision before = revision_of_record();
  machine().suspend(1h);
  way_in().restore();
  EXPECT_OK(a->life_status());
  EXPECT_TRUE(is_candidate_a());
  EXPECT_GT(revision_of_record(), before);
  EXPECT_EQ(a->self(), (Member{"a", 1}));
  EXPECT_EQ(a->world().generation, alone.generation);
}

// The others could not use the world that they formed: only "a" has the state.
TEST_F(MembershipClock, AStateHolderGoesOnBesideAWorldThatWasNeverActive) {
  const auto a = join_a();
  activate(*a, 1);
  way_in().cut(CutStore::Way::kRefuses);
  end_lease_of("a");
  const auto entry = store().get(membership::Keys("job").world());
  ASSERT_OK(entry);
  ASSERT_OK_AND_ASSIGN(membership::WorldRecord next, membership::parse_world(entry->value));
  ++next.generation;
  next.phase = Phase::kForming;
  next.members = {{"b", 1, "b:1"}};
  ASSERT_OK(store().compare_and_put(entry->key, entry->revision, encode(next)));
  machine().suspend(1h);
  way_in().restore();
  EXPECT_OK(a->life_status());
  EXPECT_EQ(a->self(), (Member{"a", 1}));
}

TEST_F(MembershipClock, AMemberWithoutWhichAWorldWasFormedJoinsAgain) {
  const auto a = join_a();
  const auto b = join_b();
  const World both = activate(*a, 2);
  way_in().cut(CutStore::Way::kRefuses);
  end_lease_of("a");
  const World alone = activate(*b, 1, both.generation);
  machine().suspend(1h);
  way_in().restore();
  const std::string formed = std::to_string(alone.generation);
  EXPECT_FAILS(a->life_status(), StatusCode::kCancelled,
               " s, and generation " + formed + " was formed without it; join again");
  EXPECT_FAILS(a->life_status(), StatusCode::kCancelled, "'a': this process stood still for 3");
  EXPECT_FALSE(is_candidate_a()) << "others would connect to a life that is over";
  EXPECT_TRUE(a->is_fenced());
  ASSERT_OK_AND_ASSIGN(const auto next, a->rejoin({}, [] { return true; }));
  ASSERT_OK_AND_ASSIGN(const World again, next->wait_world_after(alone.generation, soon()));
  EXPECT_EQ(again.size(), 2);
}

// A caller waits for the answer: a member that may be fenced does nothing meanwhile.
TEST_F(MembershipClock, NobodyGoesOnBeforeTheStoreHasAnswered) {
  const auto a = join_a();
  activate(*a, 1);
  way_in().cut(CutStore::Way::kHangs);
  machine().suspend(1h);
  auto status = std::async(std::launch::async, [&] { return a->life_status(); });
  EXPECT_EQ(status.wait_for(100ms), std::future_status::timeout);
  way_in().restore();
  EXPECT_OK(status.get());
}

TEST_F(MembershipClock, IsFencedWhenTheStoreDoesNotAnswerAfterAStandstill) {
  const auto a = join_a(kShortFence);
  activate(*a, 1);
  way_in().cut(CutStore::Way::kRefuses);
  machine().suspend(33s);
  EXPECT_FAILS(a->life_status(), StatusCode::kCancelled, "this process stood still for 3");
  EXPECT_TRUE(a->is_fenced());
}

TEST_F(MembershipClock, ASilentStoreIsNoStandstill) {
  const auto a = join_a(kShortFence);
  way_in().cut(CutStore::Way::kRefuses);
  while (a->life_status().ok()) std::this_thread::yield();
  EXPECT_FAILS(a->life_status(), StatusCode::kCancelled, "the store did not answer for 4 s");
}

TEST_F(MembershipClock, WaitsEndWithALifeThatIsFencedAfterAStandstill) {
  const auto a = join_a(kShortFence);
  const World alone = activate(*a, 1);
  auto next =
      std::async(std::launch::async, [&] { return a->wait_world_after(alone.generation, soon()); });
  way_in().cut(CutStore::Way::kRefuses);
  machine().suspend(33s);
  EXPECT_FAILS(next.get(), StatusCode::kCancelled, "this process stood still for 3");
}

// The others may have stood still, too. So they have a lease's time to come back.
TEST_F(MembershipClock, ALeaderThatStoodStillJudgesNobodyForALease) {
  const auto a = join_a();
  activate(*a, 1);
  while (!a->is_leader()) std::this_thread::yield();
  auto b = join_b();
  const World both = activate(*a, 2);
  const Time woke = deadline_in({});
  machine().suspend(10s);
  ASSERT_OK(a->life_status());  // a look at the clock
  b.reset();
  end_lease_of("b");
  ASSERT_OK_AND_ASSIGN(const World next, a->wait_world_after(both.generation, soon()));
  EXPECT_EQ(next.size(), 1);
  EXPECT_GE(deadline_in({}) - woke, 1s);
}

}  // namespace
}  // namespace ffdl
