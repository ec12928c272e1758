#include "ffdl/membership.h"

#include <gtest/gtest.h>

#include <thread>

#include "membership/keys.h"
#include "membership/records.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"
#include "support/times.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::soon;

// Leases that a busy machine keeps alive.
MembershipOptions patient() {
  MembershipOptions options;
  options.heartbeat = 50ms;
  options.lease = 5s;
  options.gather = 20ms;
  return options;
}

// Where the members of a test meet: "mem" one store object, "file" one each over a folder.
class MembershipTest : public ::testing::TestWithParam<std::string> {
 protected:
  Store& store() {
    if (GetParam() == "mem" && !stores_.empty()) return *stores_.front();
    const std::string url = GetParam() == "mem" ? "mem://" : "file://" + folder_.path() + "/store";
    auto opened = open_store(url, system_runtime());
    EXPECT_OK(opened);
    stores_.push_back(std::move(opened).value());
    return *stores_.back();
  }
  std::unique_ptr<Membership> join(const std::string& id,
                                   const MembershipOptions& options = patient()) {
    auto joined = Membership::join(store(), system_runtime(), {id, 0, id + ":1"}, options);
    EXPECT_OK(joined);
    return std::move(joined).value();
  }
  // All of these members, and no others, in an active world that each of them knows.
  World activate(const std::vector<Membership*>& all) {
    uint64_t generation = 0;
    while (true) {
      const auto world = all.front()->wait_world_after(generation, soon());
      EXPECT_OK(world);
      if (!world.ok()) return {};
      generation = world->generation;
      // The first may have come so early that it is a world of its own: others join the active one.
      if (world->rank >= 0) EXPECT_OK(all.front()->activate(generation, soon()));
      if (world->members.size() != all.size()) continue;
      for (Membership* member : all) EXPECT_OK(member->wait_active(generation, soon()));
      return all.front()->world();
    }
  }
  static void wait_until_it_may_leave(const Membership& member) {
    while (!member.may_leave()) {
      ASSERT_OK(member.standing());
      std::this_thread::yield();
    }
  }
  membership::WorldRecord record() {
    const auto entry = store().get(membership::Keys("job").world());
    EXPECT_OK(entry);
    return membership::parse_world(entry->value).value();
  }

  TempFolder folder_;
  std::vector<std::unique_ptr<Store>> stores_;
};

TEST_P(MembershipTest, MembersAgreeAndOneLeads) {
  const auto a = join("a");
  const auto b = join("b");
  const World world = activate({a.get(), b.get()});
  EXPECT_EQ(world.phase, Phase::kActive);
  EXPECT_EQ(world.lineage, 1U);
  EXPECT_EQ(world.carriers, world.members);
  ASSERT_OK_AND_ASSIGN(const World other, b->wait_world_after(0, soon()));
  EXPECT_EQ(other.members, world.members);
  EXPECT_NE(other.rank, world.rank);
  EXPECT_NE(a->is_leader(), b->is_leader());
  EXPECT_EQ(world.members[0].address, "a:1");
}

TEST_P(MembershipTest, ADeathIsAnsweredByTheOthers) {
  auto a = join("a");
  const auto b = join("b");
  const World before = activate({a.get(), b.get()});
  a.reset();
  const auto lease = store().get(membership::Keys("job").candidate("a"))->lease;
  ASSERT_OK(store().end_lease(lease));  // as a store does whose connection to the dead one closes
  ASSERT_OK_AND_ASSIGN(const World after, b->wait_world_after(before.generation, soon()));
  EXPECT_EQ(after.members, (std::vector<Member>{b->self()}));
  EXPECT_EQ(after.phase, Phase::kForming);
  EXPECT_EQ(after.carriers, before.members);
  EXPECT_FAILS(b->activate(before.generation + 7, soon()), StatusCode::kWorldChanged, "is forming");
  EXPECT_OK(b->activate(after.generation, soon()));
}

TEST_P(MembershipTest, EachLifeIsAnother) {
  auto a = join("a");
  const Member first = a->self();
  EXPECT_EQ(first.incarnation, 1U);
  const auto again = join("a");
  EXPECT_EQ(again->self().incarnation, 2U);
  EXPECT_NE(again->self(), first);
  EXPECT_FAILS(a->wait_world_after(1000, soon()), StatusCode::kCancelled,
               "incarnation 2 has taken");
  EXPECT_FAILS(a->standing(), StatusCode::kCancelled, "'a'");
}

TEST_P(MembershipTest, WithoutACarrierNothingIsFormedUntilTheirDeathIsKnown) {
  auto a = join("a");
  activate({a.get()});
  const Member gone = a->self();
  ASSERT_OK(a->publish_checkpoint({1, a->world().generation, 3, "saved", 9}, soon()));
  a.reset();
  ASSERT_OK(store().end_lease(store().get(membership::Keys("job").candidate("a"))->lease));
  const auto b = join("b");
  EXPECT_FAILS(b->wait_world_after(1, deadline_in(300ms)), StatusCode::kTimeout, "job 'job'");
  ASSERT_OK(report_death(store(), "job", gone));
  ASSERT_OK_AND_ASSIGN(const World world, b->wait_world_after(1, soon()));
  EXPECT_EQ(world.lineage, 2U);
  EXPECT_TRUE(world.carriers.empty());
  ASSERT_TRUE(b->restart_base());
  EXPECT_EQ(b->restart_base()->manifest, "saved");
}

TEST_P(MembershipTest, WhoLeavesIsMissedOnlyOnceOthersCarryOn) {
  const auto a = join("a");
  const auto b = join("b");
  const World before = activate({a.get(), b.get()});
  std::thread leaver([&] { EXPECT_OK(a->leave(soon())); });
  const auto after = b->wait_world_after(before.generation, soon());
  ASSERT_OK(after);
  EXPECT_EQ(after->members, (std::vector<Member>{b->self()}));
  EXPECT_OK(a->standing());
  EXPECT_OK(b->activate(after->generation, soon()));
  leaver.join();
  EXPECT_FAILS(a->standing(), StatusCode::kCancelled, "has left");
  EXPECT_EQ(store().get(membership::Keys("job").death("a"))->value, "1");
  EXPECT_OK(b->leave(soon()));  // the last one needs nobody
}

TEST_P(MembershipTest, ANewcomerTakesOverInOneChangeOfTheWorld) {
  const auto a = join("a");
  const auto b = join("b");
  const World before = activate({a.get(), b.get()});
  MembershipOptions options = patient();
  options.takes_over_from = before.members[0].id;
  options.max_workers = 2;
  const bool is_a = before.members[0] == a->self();
  Membership& old = is_a ? *a : *b;
  Membership& other = is_a ? *b : *a;
  const auto c = join("c", options);
  ASSERT_OK_AND_ASSIGN(const World after, c->wait_world_after(before.generation, soon()));
  EXPECT_EQ(after.generation, before.generation + 1);
  EXPECT_EQ(after.members, (std::vector<Member>{c->self(), other.self()}));
  EXPECT_EQ(after.carriers, before.members);
  ASSERT_OK(old.wait_world_after(before.generation, soon()));
  EXPECT_FALSE(old.may_leave());
  ASSERT_OK(c->activate(after.generation, soon()));
  wait_until_it_may_leave(old);
  EXPECT_OK(old.standing());
  EXPECT_FALSE(other.may_leave() || c->may_leave());
  EXPECT_OK(old.leave(soon()));
  EXPECT_FAILS(c->wait_world_after(after.generation, deadline_in(200ms)), StatusCode::kTimeout,
               "job 'job'");
}

TEST_P(MembershipTest, WhereWhoTakesOverDiesTheOtherComesBack) {
  const auto a = join("a");
  const auto b = join("b");
  const World before = activate({a.get(), b.get()});
  MembershipOptions options = patient();
  options.takes_over_from = "b";
  auto c = join("c", options);
  ASSERT_OK_AND_ASSIGN(const World without, b->wait_world_after(before.generation, soon()));
  EXPECT_EQ(without.rank, -1);
  c.reset();
  ASSERT_OK(store().end_lease(store().get(membership::Keys("job").candidate("c"))->lease));
  ASSERT_OK_AND_ASSIGN(const World with, b->wait_world_after(without.generation, soon()));
  EXPECT_GE(with.rank, 0);
  EXPECT_EQ(with.members.size(), 2U);
  EXPECT_FALSE(b->may_leave());
}

// The only one gives its state to the newcomer in a world of both, whatever max_workers says.
TEST_P(MembershipTest, TheOnlyOneHandsOverInTwoChanges) {
  MembershipOptions options = patient();
  options.max_workers = 1;
  const auto a = join("a", options);
  const World before = activate({a.get()});
  options.takes_over_from = "a";
  const auto b = join("b", options);
  activate({a.get(), b.get()});
  ASSERT_OK_AND_ASSIGN(const World after, b->wait_world_after(before.generation + 1, soon()));
  EXPECT_EQ(after.members, (std::vector<Member>{b->self()}));
  EXPECT_FALSE(a->may_leave());
  ASSERT_OK(b->activate(after.generation, soon()));
  wait_until_it_may_leave(*a);
}

TEST_P(MembershipTest, ALaterLifeIsNotWhoWasTakenOverFrom) {
  MembershipOptions options = patient();
  options.takes_over_from = "b";
  auto b = join("b");
  activate({b.get()});
  const auto a = join("a", options);
  b.reset();
  ASSERT_OK(store().end_lease(store().get(membership::Keys("job").candidate("b"))->lease));
  b = join("b");
  ASSERT_OK(report_death(store(), "job", {"b", 1}));
  const World both = activate({a.get(), b.get()});
  EXPECT_EQ(both.lineage, 2U);
  EXPECT_FALSE(b->may_leave());
}

TEST_P(MembershipTest, CheckpointsOnlyMoveForward) {
  const auto a = join("a");
  const uint64_t generation = activate({a.get()}).generation;
  const CheckpointPointer first = {1, generation, 10, "ten", 1};
  ASSERT_OK(a->publish_checkpoint(first, soon()));
  EXPECT_OK(a->publish_checkpoint(first, soon()));  // the reply to the first may have been lost
  EXPECT_EQ(a->checkpoint(), first);
  EXPECT_FAILS(a->publish_checkpoint({1, generation, 9, "nine", 1}, soon()), StatusCode::kConflict,
               "'ten' is there");
  EXPECT_FAILS(a->publish_checkpoint({2, generation, 11, "other", 1}, soon()),
               StatusCode::kWorldChanged, "lineage 2");
  EXPECT_OK(a->publish_checkpoint({1, generation, 11, "eleven", 1}, soon()));
  EXPECT_EQ(record().checkpoint->manifest, "eleven");
}

// Members that leave take nobody back, one that dies does; the others live on as carriers of a
// state that is given up.
TEST_P(MembershipTest, WithConsistentRecoveryADeathTakesTheOthersBack) {
  MembershipOptions options = patient();
  options.recovery = Recovery::kConsistent;
  const auto a = join("a", options);
  auto b = join("b", options);
  auto c = join("c", options);
  const World three = activate({a.get(), b.get(), c.get()});
  ASSERT_OK(a->publish_checkpoint({1, three.generation, 3, "saved", 9}, soon()));
  b->ask_to_leave();
  World world = three;
  while (world.members.size() != 2) {
    ASSERT_OK_AND_ASSIGN(world, a->wait_world_after(world.generation, soon()));
  }
  ASSERT_OK(a->activate(world.generation, soon()));
  wait_until_it_may_leave(*b);
  ASSERT_OK(b->leave(soon()));
  EXPECT_EQ(world.lineage, 1U);
  EXPECT_FALSE(world.begins_anew());
  ASSERT_OK(c->wait_active(world.generation, soon()));
  const std::vector<Member> both = world.members;
  c.reset();
  ASSERT_OK(store().end_lease(store().get(membership::Keys("job").candidate("c"))->lease));
  ASSERT_OK_AND_ASSIGN(world, a->wait_world_after(world.generation, soon()));
  EXPECT_EQ(world.members, (std::vector<Member>{a->self()}));
  EXPECT_EQ(world.lineage, 2U);
  EXPECT_TRUE(world.begins_anew());
  EXPECT_EQ(world.carriers, both);
  ASSERT_TRUE(a->restart_base());
  EXPECT_EQ(a->restart_base()->manifest, "saved");
  EXPECT_FAILS(a->publish_checkpoint({1, three.generation, 7, "late", 9}, soon()),
               StatusCode::kWorldChanged, "it is of lineage 1");
  ASSERT_OK(a->activate(world.generation, soon()));
  EXPECT_FALSE(a->world().begins_anew());
}

TEST_P(MembershipTest, WhoRecoversInAnotherWayIsRefused) {
  const auto a = join("a");
  activate({a.get()});
  MembershipOptions options = patient();
  options.recovery = Recovery::kConsistent;
  const auto b = join("b", options);
  EXPECT_FAILS(b->wait_world_after(1000, soon()), StatusCode::kInvalidArgument,
               "its recovery from a death is forward, this member's consistent");
  EXPECT_OK(a->standing());
}

TEST_P(MembershipTest, WhoStandsStillBehindOthersIsLeftOutUntilItReports) {
  MembershipOptions options = patient();
  options.lease = 1s;
  options.step_timeout = 1100ms;
  const auto a = join("a", options);
  const auto b = join("b", options);
  const World before = activate({a.get(), b.get()});
  a->report_progress(before.generation, 5);
  b->report_progress(before.generation, 4);
  ASSERT_OK_AND_ASSIGN(const World without, a->wait_world_after(before.generation, soon()));
  EXPECT_EQ(without.members, (std::vector<Member>{a->self()}));
  ASSERT_OK(a->activate(without.generation, soon()));
  b->report_progress(without.generation, 0);
  ASSERT_OK_AND_ASSIGN(const World with, a->wait_world_after(without.generation, soon()));
  EXPECT_EQ(with.members.size(), 2U);
}

// A leader that counts a carrier as absent compares the record's revision when it gives the state
// up.
TEST_P(MembershipTest, ACarrierThatComesBackWritesTheRecord) {
  const auto a = join("a");
  activate({a.get()});
  const membership::Keys keys("job");
  const membership::WorldRecord before = record();
  ASSERT_OK_AND_ASSIGN(Revision seen, store().wait_change(keys.world(), 0, Time::min()));
  const LeaseId lease = store().get(keys.candidate("a"))->lease;
  ASSERT_OK(store().end_lease(lease));
  EXPECT_OK(store().wait_change(keys.world(), seen, soon()));
  EXPECT_EQ(record(), before);
  const auto candidate = store().get(keys.candidate("a"));
  ASSERT_OK(candidate);
  EXPECT_NE(candidate->lease, lease);
  EXPECT_OK(a->standing());
}

TEST_P(MembershipTest, AWorldThatCameApartIsFormedAgain) {
  const auto a = join("a");
  const auto b = join("b");
  const World before = activate({a.get(), b.get()});
  b->report_failure(before.generation);
  ASSERT_OK_AND_ASSIGN(const World after, a->wait_world_after(before.generation, soon()));
  EXPECT_EQ(after.members, before.members);
}

TEST_P(MembershipTest, ForeignBytesUnderItsKeysEndItWithAReason) {
  const auto a = join("a");
  ASSERT_OK(store().put(membership::Keys("job").world(), "not a record"));
  EXPECT_FAILS(a->wait_world_after(1000, soon()), StatusCode::kCorrupt, "something else wrote it");
}

TEST_P(MembershipTest, WrongNamesAreRefused) {
  EXPECT_FAILS(Membership::join(store(), system_runtime(), {"a/b"}), StatusCode::kInvalidArgument,
               "'a/b'");
  MembershipOptions options;
  for (const char* name : {"a", "b/c"}) {
    options.takes_over_from = name;
    EXPECT_FAILS(Membership::join(store(), system_runtime(), {"a"}, options),
                 StatusCode::kInvalidArgument, "name another member, or nobody");
  }
  options = {};
  options.heartbeat = options.lease;
  EXPECT_FAILS(Membership::join(store(), system_runtime(), {"a"}, options),
               StatusCode::kInvalidArgument, "docs/timeouts.md");
}

INSTANTIATE_TEST_SUITE_P(Stores, MembershipTest, ::testing::Values("mem", "file"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace ffdl
