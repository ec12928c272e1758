// Tests the life of a member after one that ended at the fence, in the same process.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "ffdl/membership.h"
#include "membership/keys.h"
#include "membership/membership_records.h"
#include "support/cut_store.h"
#include "support/patient_membership.h"
#include "support/status_matchers.h"
#include "support/times.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::CutStore;
using testing::soon;

bool is_wanted() { return true; }

// Returns options with the shortest fence for their lease.
MembershipOptions with_short_fence() {
  MembershipOptions options = testing::patient_membership(1s);
  options.fence_after = 2s;
  return options;
}

class MembershipBegin : public ::testing::Test {
 protected:
  MembershipBegin() : store_(open_store("mem://", system_runtime()).value()), way_in_(*store_) {}

  Store& store() { return *store_; }
  CutStore& way_in() { return way_in_; }  // of "a"
  std::unique_ptr<Membership> join_a() { return join("a", way_in_); }
  std::unique_ptr<Membership> join(const std::string& id, Store& store,
                                   const MembershipOptions& options = with_short_fence()) {
    auto joined = Membership::join(store, system_runtime(), {id, 0, id + ":1"}, options);
    EXPECT_OK(joined);
    return std::move(joined).value();
  }
  // Waits for the first world of this member, and makes it active.
  World activate(Membership& alone) {
    const auto world = alone.wait_world_after(0, soon());
    EXPECT_OK(world);
    if (!world.ok()) return {};
    EXPECT_OK(alone.activate(world->generation, soon()));
    EXPECT_OK(alone.wait_active(world->generation, soon()));
    return *world;
  }
  // Cuts "a" off until its life is over.
  void fence(Membership& a) {
    way_in_.cut(CutStore::Way::kRefuses);
    while (a.life_status().ok()) std::this_thread::yield();
    EXPECT_TRUE(a.is_fenced());
    way_in_.restore();
  }
  std::optional<StateLabel> state_of_a() {
    const auto entry = store_->get(membership::Keys("job").progress("a"));
    return entry.ok() ? membership::parse_progress(entry->value).value().holds : std::nullopt;
  }

 private:
  const std::unique_ptr<Store> store_;
  CutStore way_in_;
};

TEST_F(MembershipBegin, TheNextLifeIsAnotherAndTheEarlierOneIsDead) {
  const auto earlier = join_a();
  const World alone = activate(*earlier);
  fence(*earlier);
  const StateLabel label = {1, alone.generation, 42};
  ASSERT_OK_AND_ASSIGN(const auto a, earlier->rejoin(label, is_wanted));
  EXPECT_EQ(a->self(), (Member{"a", 2}));
  EXPECT_EQ(a->self().address, "a:1");
  EXPECT_EQ(state_of_a(), label);
  // Neither a proof of its death nor its fence is waited for.
  ASSERT_OK_AND_ASSIGN(const World next, a->wait_world_after(alone.generation, soon()));
  EXPECT_TRUE(next.begins_anew());
  EXPECT_EQ(next.lineage, 2U);
  ASSERT_OK(a->activate(next.generation, soon(), label, "a"));
  ASSERT_OK_AND_ASSIGN(const JobStatus job, read_job(store(), "job"));
  EXPECT_EQ(job.lineage_base, label);
  EXPECT_EQ(job.lineage_holder, "a");
}

// The newcomer leads, and waits for the state holder. It does not learn of the end of the earlier
// life before the next one is a candidate with the state.
TEST_F(MembershipBegin, ANewcomerDoesNotBeginWithoutTheMemberThatReturns) {
  MembershipOptions options = with_short_fence();
  options.fence_margin = 50s;  // the newcomer waits for the fence much longer than "a" is away
  const auto earlier = join("a", way_in(), options);
  const World alone = activate(*earlier);
  fence(*earlier);
  const auto c = join("c", store(), options);
  while (!c->is_leader()) std::this_thread::yield();
  EXPECT_EQ(c->world().generation, alone.generation);
  const StateLabel label = {1, alone.generation, 42};
  ASSERT_OK_AND_ASSIGN(const auto a, earlier->rejoin(label, is_wanted));
  ASSERT_OK_AND_ASSIGN(const World next, c->wait_world_after(alone.generation, soon()));
  EXPECT_TRUE(next.begins_anew());
  EXPECT_TRUE(membership::contains(next.members, a->self()));
}

TEST_F(MembershipBegin, NobodyReturnsUnderAnIdThatAnotherProcessHas) {
  const auto earlier = join_a();
  fence(*earlier);
  const auto other = join("a", store());
  EXPECT_FAILS(earlier->rejoin({}, is_wanted), StatusCode::kCancelled,
               "incarnation 2 has replaced this member's incarnation 1");
  EXPECT_OK(other->life_status());
}

// The other process has taken the incarnation, and is no candidate yet.
TEST_F(MembershipBegin, NobodyReturnsUnderAnIdThatAnotherProcessTakes) {
  const auto earlier = join_a();
  fence(*earlier);
  ASSERT_OK(store().put(membership::Keys("job").incarnation("a"), "2", kNoLease));
  EXPECT_FAILS(earlier->rejoin({}, is_wanted), StatusCode::kCancelled,
               "another process has taken its id, as incarnation 2");
}

// A member that is to take over has taken nothing over before it has the state.
TEST_F(MembershipBegin, TheOnlyOneWithTheStateReturnsToTheMemberThatTakesOver) {
  MembershipOptions options = with_short_fence();
  options.fence_margin = 50s;
  const auto earlier = join("a", way_in(), options);
  const World alone = activate(*earlier);
  fence(*earlier);
  options.takes_over_from = "a";
  const auto b = join("b", store(), options);
  ASSERT_OK_AND_ASSIGN(const auto a,
                       earlier->rejoin(StateLabel{1, alone.generation, 42}, is_wanted));
  ASSERT_OK_AND_ASSIGN(const World next, b->wait_world_after(alone.generation, soon()));
  EXPECT_TRUE(membership::contains(next.members, a->self()));
}

// The first attempt is cut off after it has taken the incarnation.
TEST_F(MembershipBegin, AReturnThatIsRepeatedFindsItsOwnTraces) {
  const auto earlier = join_a();
  fence(*earlier);
  int asked = 0;
  const auto is_wanted_again = [&] {
    way_in().cut(++asked == 1 ? CutStore::Way::kRefuses : CutStore::Way::kOpen);
    return true;
  };
  ASSERT_OK_AND_ASSIGN(const auto a, earlier->rejoin({}, is_wanted_again));
  EXPECT_GT(asked, 1);
  EXPECT_EQ(a->self().incarnation, 2U);
}

TEST_F(MembershipBegin, NoLifeFollowsOneThatLasts) {
  const auto a = join_a();
  EXPECT_FAILS(a->rejoin({}, is_wanted), StatusCode::kInvalidArgument,
               "the fence has not ended this one");
  EXPECT_OK(a->life_status());
}

TEST_F(MembershipBegin, AReturnEndsThatIsNotWantedAnyMore) {
  const auto earlier = join_a();
  fence(*earlier);
  way_in().cut(CutStore::Way::kRefuses);
  EXPECT_FAILS(earlier->rejoin({}, [] { return false; }), StatusCode::kTimeout,
               "it could not join again after it was away: the test has cut this member off");
}

// The job was done, and is to train again: what an earlier lineage left in memory is void.
TEST_F(MembershipBegin, AJobThatBeginsAgainHasNoEarlierState) {
  const auto a = join_a();
  const World world = activate(*a);
  const StateLabel label = {1, world.generation, 42};
  World next = world;
  next.lineage = 2;
  EXPECT_EQ(*a->label_at_beginning(next, label), label);
  ASSERT_OK(a->complete({1, world.generation, 42, 5}, soon()));
  ASSERT_OK(begin_again(store(), "job"));
  ASSERT_OK_AND_ASSIGN(next, a->wait_world_after(world.generation, soon()));
  EXPECT_EQ(next.lineage, 2U);
  EXPECT_EQ(*a->label_at_beginning(next, label), std::nullopt);
  EXPECT_FAILS(a->label_at_beginning(world, label), StatusCode::kWorldChanged,
               "is forming; continue");
}

}  // namespace
}  // namespace ffdl
