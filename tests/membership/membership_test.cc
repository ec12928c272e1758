#include "ffdl/membership.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "ffdl/log.h"
#include "membership/keys.h"
#include "membership/membership_records.h"
#include "support/forwarding_store.h"
#include "support/patient_membership.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"
#include "support/times.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::soon;

MembershipOptions patient() { return testing::patient_membership(5s); }

// Selects the members' store: "mem" is one store object, "file" has one object each over a folder.
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
  // Waits for an active world of exactly these members that each of them knows.
  World activate(const std::vector<Membership*>& all) {
    uint64_t generation = 0;
    while (true) {
      const auto world = all.front()->wait_world_after(generation, soon());
      EXPECT_OK(world);
      if (!world.ok()) return {};
      generation = world->generation;
      // The first may have formed a world of its own already, which the others join.
      if (world->rank >= 0) EXPECT_OK(all.front()->activate(generation, soon()));
      if (world->members.size() != all.size()) continue;
      for (Membership* member : all) EXPECT_OK(member->wait_active(generation, soon()));
      return all.front()->world();
    }
  }
  // Reports step 42 as begun, and dies once the store has that report. Returns the life that died.
  Member die_at_step_42(std::unique_ptr<Membership> member, const World& world) {
    Member self = member->self();
    member->report_progress(world.generation, 42);
    while (progress_of(self.id).step != 42) std::this_thread::yield();
    member.reset();
    EXPECT_OK(store().end_lease(store().get(membership::Keys("job").candidate(self.id))->lease));
    return self;
  }
  membership::Progress progress_of(const std::string& id) {
    const auto entry = store().get(membership::Keys("job").progress(id));
    return entry.ok() ? membership::parse_progress(entry->value).value() : membership::Progress{};
  }
  static void wait_until_it_may_leave(const Membership& member) {
    while (!member.may_leave()) {
      ASSERT_OK(member.life_status());
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
  EXPECT_EQ(world.state_holders, world.members);
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
  ASSERT_OK(store().end_lease(lease));  // as a store does after a lost connection
  ASSERT_OK_AND_ASSIGN(const World after, b->wait_world_after(before.generation, soon()));
  EXPECT_EQ(after.members, (std::vector<Member>{b->self()}));
  EXPECT_EQ(after.phase, Phase::kForming);
  EXPECT_EQ(after.state_holders, before.members);
  EXPECT_FAILS(b->activate(before.generation + 7, soon()), StatusCode::kWorldChanged, "is forming");
  const auto late = join("late");  // no member of the world that is formed
  EXPECT_FAILS(late->activate(after.generation, soon()), StatusCode::kInvalidArgument,
               "'late' is not a member of it");
  EXPECT_OK(b->activate(after.generation, soon()));
}

TEST_P(MembershipTest, AJobIsDoneOnceAndForAll) {
  const auto a = join("a");
  const auto b = join("b");
  const World world = activate({a.get(), b.get()});
  EXPECT_EQ(a->completion(), std::nullopt);
  const StateLabel end = {world.lineage, world.generation, 9, 77};
  EXPECT_FAILS(a->complete({world.lineage, world.generation + 1, 9, 77}, soon()),
               StatusCode::kWorldChanged, "continue there");
  EXPECT_OK(a->complete(end, soon()));
  EXPECT_EQ(a->completion(), end);
  EXPECT_OK(b->complete(end, soon()));
  EXPECT_FAILS(b->complete({world.lineage, world.generation, 9, 78}, soon()), StatusCode::kInternal,
               "with another state");
  EXPECT_EQ(record().completion, end);
  EXPECT_TRUE(b->is_state_held());
  ASSERT_OK(begin_again(store(), "job"));
  const auto again = record();
  EXPECT_EQ(again.completion, std::nullopt);
  EXPECT_EQ(again.lineage, 2U);
  EXPECT_TRUE(again.state_holders.empty());
  ASSERT_OK(begin_again(store(), "job"));  // the job is not done
  EXPECT_EQ(record().lineage, again.lineage);
  EXPECT_OK(begin_again(store(), "another"));
}

TEST_P(MembershipTest, AJobWhoseStateIsLostFailsIfItIsToldTo) {
  auto a = join("a");
  const World world = activate({a.get()});
  ASSERT_OK(report_death(store(), "job", die_at_step_42(std::move(a), world)));
  MembershipOptions fails = patient();
  fails.on_lost_state = OnLostState::kFail;
  const auto b = join("b", fails);
  EXPECT_FAILS(b->wait_world_after(world.generation, soon()), StatusCode::kCancelled,
               "it was at step 41");
  const auto c = join("c");
  ASSERT_OK_AND_ASSIGN(const World anew, c->wait_world_after(world.generation, soon()));
  EXPECT_EQ(anew.lineage, world.lineage + 1);
}

// The next life of the same id writes its own progress long before the fence of the dead life.
TEST_P(MembershipTest, AJobWhoseStateIsLostSaysSoThoughTheSameIdsComeBack) {
  auto a = join("a");
  const World world = activate({a.get()});
  const Member dead = die_at_step_42(std::move(a), world);
  std::mutex mutex;
  std::string warnings;
  set_log_sink([&](LogLevel level, std::string_view line) {
    const std::lock_guard lock(mutex);
    if (level == LogLevel::kWarning) warnings.append(line).append("\n");
  });
  const auto again = join("a");
  again->report_progress(world.generation, 0);  // as a session does that waits for a world
  while (progress_of("a").incarnation != again->self().incarnation) std::this_thread::yield();
  ASSERT_OK(report_death(store(), "job", dead));
  ASSERT_OK_AND_ASSIGN(const World anew, again->wait_world_after(world.generation, soon()));
  set_log_sink({});
  EXPECT_EQ(anew.lineage, world.lineage + 1);
  EXPECT_NE(warnings.find("no member and no checkpoint has the state (it was at step 41); training "
                          "begins again, give checkpoints to keep the state"),
            std::string::npos)
      << warnings;
}

TEST_P(MembershipTest, EachLifeIsAnother) {
  auto a = join("a");
  const Member first = a->self();
  EXPECT_EQ(first.incarnation, 1U);
  const auto again = join("a");
  EXPECT_EQ(again->self().incarnation, 2U);
  EXPECT_NE(again->self(), first);
  EXPECT_FAILS(a->wait_world_after(1000, soon()), StatusCode::kCancelled,
               "incarnation 2 has replaced");
  EXPECT_FAILS(a->life_status(), StatusCode::kCancelled, "'a'");
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
  EXPECT_TRUE(world.state_holders.empty());
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
  EXPECT_OK(a->life_status());
  EXPECT_OK(b->activate(after->generation, soon()));
  leaver.join();
  EXPECT_FAILS(a->life_status(), StatusCode::kCancelled, "has left");
  EXPECT_EQ(store().get(membership::Keys("job").death("a"))->value, "1");
  EXPECT_OK(b->leave(soon()));  // the last member needs no other
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
  EXPECT_EQ(after.state_holders, before.members);
  ASSERT_OK(old.wait_world_after(before.generation, soon()));
  EXPECT_FALSE(old.may_leave());
  ASSERT_OK(c->activate(after.generation, soon()));
  wait_until_it_may_leave(old);
  EXPECT_OK(old.life_status());
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

// The only member passes its state to the newcomer in a world of both, whatever max_workers is.
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
  b.reset();  // before "a" comes: its first life must not begin to hand over
  const auto lease = store().get(membership::Keys("job").candidate("b"))->lease;
  const auto a = join("a", options);
  ASSERT_OK(store().end_lease(lease));
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
  EXPECT_OK(a->publish_checkpoint(first, soon()));  // the reply to the first may be lost
  EXPECT_EQ(a->checkpoint(), first);
  EXPECT_FAILS(a->publish_checkpoint({1, generation, 9, "nine", 1}, soon()), StatusCode::kConflict,
               "'ten' is published");
  EXPECT_FAILS(a->publish_checkpoint({2, generation, 11, "other", 1}, soon()),
               StatusCode::kWorldChanged, "lineage 2");
  EXPECT_OK(a->publish_checkpoint({1, generation, 11, "eleven", 1}, soon()));
  EXPECT_EQ(record().checkpoint->manifest, "eleven");
}

// Members that leave take no other member back, and one that dies does. The others stay state
// holders of a state that is given up.
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
  EXPECT_EQ(world.state_holders, both);
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
  EXPECT_FAILS(Membership::join(store(), system_runtime(), {"b"}, options),
               StatusCode::kInvalidArgument,
               "its recovery from a death is forward, this member's consistent");
  EXPECT_FAILS(store().get(membership::Keys("job").candidate("b")), StatusCode::kNotFound, "");
  EXPECT_OK(a->life_status());
}

TEST_P(MembershipTest, AMemberOfAnotherVersionIsRefusedAlone) {
  membership::WorldRecord other;
  {
    const auto a = join("a");
    activate({a.get()});
    other = record();
    ASSERT_OK(a->leave(soon()));
  }
  other.protocol = membership::kProtocolVersion + 1;
  other.members = other.state_holders = {{"living", 3}};
  other.leader = other.members.front();
  const membership::Keys keys("job");
  ASSERT_OK_AND_ASSIGN(const LeaseId lease, store().grant_lease(1h));
  ASSERT_OK(store().put(keys.candidate("living"), encode(membership::CandidateRecord{3}), lease));
  ASSERT_OK(store().put(keys.world(), encode(other), kNoLease));
  EXPECT_FAILS(Membership::join(store(), system_runtime(), {"b"}, patient()),
               StatusCode::kInvalidArgument, "use one version of ffdl");
  EXPECT_EQ(record(), other) << "the job goes on as it was";
  // Once all members of that version are gone, the job belongs to the other version.
  ASSERT_OK(store().end_lease(lease));
  ASSERT_OK(report_death(store(), "job", other.members.front()));
  const auto c = join("c");
  ASSERT_OK_AND_ASSIGN(const World anew, c->wait_world_after(other.generation, soon()));
  EXPECT_EQ(anew.lineage, other.lineage + 1);
  EXPECT_EQ(record().protocol, membership::kProtocolVersion);
}

TEST_P(MembershipTest, WhoStandsStillBehindOthersIsLeftOutUntilItReports) {
  MembershipOptions options = patient();
  options.lease = 5s;  // a busy machine keeps it alive
  options.step_timeout = 5100ms;
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

// A leader that counts a state holder as absent compares the record's revision before it gives the
// state up.
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
  EXPECT_OK(a->life_status());
}

TEST_P(MembershipTest, AWorldThatCameApartIsFormedAgain) {
  const auto a = join("a");
  const auto b = join("b");
  const World before = activate({a.get(), b.get()});
  b->report_failure(before.generation);
  ASSERT_OK_AND_ASSIGN(const World after, a->wait_world_after(before.generation, soon()));
  EXPECT_EQ(after.members, before.members);
}

// Removes the key of an earlier life, just when the next one takes its place.
class EndingLife final : public testing::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Result<Revision> compare_and_put(std::string_view key, Revision expected, std::string_view value,
                                   LeaseId lease) override {
    if (key == membership::Keys("job").candidate("a") && !std::exchange(has_ended_, true)) {
      FFDL_RETURN_IF_ERROR(inner_.remove(key));
    }
    return inner_.compare_and_put(key, expected, value, lease);
  }

 private:
  bool has_ended_ = false;
};

TEST(Membership, ALifeThatEndsMeanwhileDoesNotKeepTheNextOneOut) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  ASSERT_OK(store->put(membership::Keys("job").candidate("a"),
                       encode(membership::CandidateRecord{.incarnation = 1, .address = "x"})));
  EndingLife ending(*store);
  EXPECT_OK(Membership::join(ending, system_runtime(), {"a", 0, ""}, patient()));
}

// A session may still ask because of its earlier world, after its next one has failed too.
TEST_P(MembershipTest, AnOlderFailureDoesNotHideANewerOne) {
  const auto a = join("a");
  const auto b = join("b");
  const World first = activate({a.get(), b.get()});
  b->report_failure(first.generation);
  ASSERT_OK_AND_ASSIGN(const World second, a->wait_world_after(first.generation, soon()));
  b->report_failure(second.generation);
  b->report_failure(first.generation);
  EXPECT_OK(a->wait_world_after(second.generation, soon()));
}

TEST_P(MembershipTest, AMemberThatOthersCannotConnectToIsLeftOut) {
  const auto a = join("a");
  const auto b = join("b");
  World world = activate({a.get(), b.get()});
  const auto c = join("c");
  uint64_t seen = world.generation;
  for (int failed = 0; failed < 3; ++failed) {
    ASSERT_OK_AND_ASSIGN(world, a->wait_world_after(seen, soon()));
    seen = world.generation;
    ASSERT_EQ(world.size(), 3) << failed;
    a->report_failure(seen, {c->self()});
    b->report_failure(seen, {c->self()});
  }
  while (world.size() == 3) {
    ASSERT_OK_AND_ASSIGN(world, a->wait_world_after(seen, soon()));
    seen = world.generation;
  }
  EXPECT_EQ(world.members, (std::vector<Member>{a->self(), b->self()}));
  // It is tried again, and stays if that succeeds.
  ASSERT_OK_AND_ASSIGN(world, [&]() -> Result<World> {
    FFDL_RETURN_IF_ERROR(a->activate(seen, soon()));
    return a->wait_world_after(seen, soon());
  }());
  EXPECT_EQ(world.size(), 3);
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
                 StatusCode::kInvalidArgument, "name another member, or none");
  }
  options = {};
  options.heartbeat = options.lease;
  EXPECT_FAILS(Membership::join(store(), system_runtime(), {"a"}, options),
               StatusCode::kInvalidArgument, "docs/reference/timeouts.md");
}

// Does not answer the next `refusals` writes of a departure.
class NoDepartures final : public testing::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Result<Revision> put(std::string_view key, std::string_view value, LeaseId lease) override {
    if (key.find("/left/") == key.npos || refusals-- <= 0) return inner_.put(key, value, lease);
    return Status(StatusCode::kTimeout, "the test says so");
  }
  int refusals = 1;
};

TEST_P(MembershipTest, LeavingIsRepeatedWhenTheStoreDidNotAnswer) {
  NoDepartures way(store());
  auto joined = Membership::join(way, system_runtime(), {"a", 0, ""}, patient());
  ASSERT_OK(joined);
  const auto a = std::move(joined).value();
  EXPECT_FAILS(a->leave(soon()), StatusCode::kTimeout, "the test says so");
  EXPECT_OK(a->leave(soon()));
  EXPECT_OK(store().get(membership::Keys("job").departure("a")));
  EXPECT_FAILS(store().get(membership::Keys("job").candidate("a")), StatusCode::kNotFound, "");
  EXPECT_FAILS(a->leave(soon()), StatusCode::kCancelled, "it has left");
}

// A store with the given round trip.
class FarStore final : public testing::ForwardingStore {
 public:
  FarStore(Store& inner, Duration round_trip) : ForwardingStore(inner), round_trip_(round_trip) {}
  Result<Entry> get(std::string_view key) override { return travel(), inner_.get(key); }
  Result<Revision> compare_and_put(std::string_view key, Revision expected, std::string_view value,
                                   LeaseId lease) override {
    return travel(), inner_.compare_and_put(key, expected, value, lease);
  }
  Result<LeaseId> grant_lease(Duration ttl) override { return travel(), inner_.grant_lease(ttl); }
  Status keep_alive(LeaseId lease) override { return travel(), inner_.keep_alive(lease); }

 private:
  void travel() const { system_runtime().make_event()->wait_until(deadline_in(round_trip_)); }
  const Duration round_trip_;
};

TEST_P(MembershipTest, AStoreTooFarAwayForTheLeaseNamesTheOptionAtOnce) {
  FarStore far(store(), 170ms);
  const auto joined = Membership::join(far, system_runtime(), {"a", 0, ""}, {});
  EXPECT_FAILS(joined, StatusCode::kTimeout, "its lease of 300 ms ended 3 times");
  EXPECT_FAILS(joined, StatusCode::kTimeout, "set MembershipOptions::lease (in Python lease_s) to");
}

TEST_P(MembershipTest, RoundTripsThatALostPacketMakesTooLongAreWarnedOfOnce) {
  FarStore far(store(), 60ms);
  std::mutex mutex;
  std::vector<std::string> warnings;
  const auto warned = system_runtime().make_event();
  set_log_sink([&](LogLevel level, std::string_view line) {
    if (level != LogLevel::kWarning) return;
    const std::lock_guard lock(mutex);
    warnings.emplace_back(line);
    warned->set();
  });
  {
    const auto joined = Membership::join(far, system_runtime(), {"a", 0, ""}, {});
    EXPECT_OK(joined);
    EXPECT_TRUE(warned->wait_until(soon()));
    system_runtime().make_event()->wait_until(deadline_in(300ms));  // for a second warning
  }
  set_log_sink({});
  ASSERT_EQ(warnings.size(), 1);
  EXPECT_NE(warnings[0].find("member 'a': calls to the store take"), std::string::npos);
  EXPECT_NE(warnings[0].find("MembershipOptions::lease"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Stores, MembershipTest, ::testing::Values("mem", "file"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace ffdl
