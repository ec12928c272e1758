#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "sim/checker.h"
#include "sim/cluster.h"
#include "sim/faulty_store.h"
#include "sim/link_trouble.h"
#include "sim/sim_runtime.h"
#include "store/local/memory_store.h"
#include "support/status_matchers.h"

namespace ffdl::sim {
namespace {

using namespace std::chrono_literals;

// Runs a body in a simulation of its own.
struct Simulation {
  explicit Simulation(uint64_t seed = 1) : runtime(seed, stacks) {}
  void run(const std::function<void()>& body) { EXPECT_EQ(runtime.run(body), ""); }

  Stacks stacks;
  SimRuntime runtime;
};

TEST(SimRuntime, TimePassesOnlyWhenAllWait) {
  Simulation sim;
  sim.run([&] {
    SimNode& node = sim.runtime.make_node("node");
    const Time before = node.now();
    EXPECT_FALSE(node.make_event()->wait_until(before + 1h));
    EXPECT_GE(node.now(), before + 1h);
    EXPECT_LE(node.now(), before + 1h + 1ms);
  });
}

TEST(SimRuntime, EachNodeHasItsOwnClock) {
  Simulation sim;
  sim.run([&] {
    SimNode& a = sim.runtime.make_node("a");
    SimNode& b = sim.runtime.make_node("b");
    const Time a_before = a.now();
    const Time b_before = b.now();
    EXPECT_NE(a_before, b_before);
    sim.runtime.sleep(1000s);
    EXPECT_NE(a.now() - a_before, b.now() - b_before);
    EXPECT_LT((a.now() - a_before) - 1000s, 6s);
  });
}

TEST(SimRuntime, AnEventWakesWhoWaits) {
  Simulation sim;
  sim.run([&] {
    SimNode& node = sim.runtime.make_node("node");
    const auto event = node.make_event();
    bool woken = false;
    const auto task =
        node.spawn("waiter", [&](const StopToken&) { woken = event->wait_until(kNoDeadline); });
    sim.runtime.sleep(1s);
    EXPECT_FALSE(woken);
    event->set();
    sim.runtime.sleep(1s);
    EXPECT_TRUE(woken);
  });
}

TEST(SimRuntime, WhoIsPausedDoesNotRun) {
  Simulation sim;
  sim.run([&] {
    SimNode& node = sim.runtime.make_node("node");
    int turns = 0;
    auto task = node.spawn("counter", [&](const StopToken& stop) {
      while (!stop.stop_requested()) {
        ++turns;
        sim.runtime.sleep(1ms);
      }
    });
    sim.runtime.sleep(10ms);
    node.pause_until(sim.runtime.elapsed() + 1s);
    const int before = turns;
    sim.runtime.sleep(900ms);
    EXPECT_EQ(turns, before);
    sim.runtime.sleep(200ms);
    EXPECT_GT(turns, before);
    task.reset();
  });
}

// Runs in a process of its own, because the memory of such tasks is never freed.
TEST(SimRuntimeDeathTest, TasksThatWaitForEverAreNamed) {
  const auto wait_for_ever = [] {
    Simulation sim;
    const std::string outcome = sim.runtime.run([&] {
      SimNode& node = sim.runtime.make_node("node");
      const auto event = node.make_event();
      const auto task = node.spawn(
          "waiter", [&](const StopToken&) { static_cast<void>(event->wait_until(kNoDeadline)); });
    });
    std::fputs(outcome.c_str(), stderr);
    _exit(0);
  };
  EXPECT_EXIT(wait_for_ever(), ::testing::ExitedWithCode(0),
              "all wait for ever: director of director, waiter of node");
}

TEST(Simulate, ASeedIsASchedule) {
  Stacks stacks;
  const Outcome first = simulate({.seed = 7}, stacks);
  EXPECT_EQ(simulate({.seed = 7}, stacks).schedule_hash, first.schedule_hash);
  EXPECT_NE(simulate({.seed = 8}, stacks).schedule_hash, first.schedule_hash);
  EXPECT_EQ(first.violation, "");
}

// Cuts only links, which return.
TEST(Simulate, TheLongestStallsAreMeasured) {
  Stacks stacks;
  Duration longest{};
  Duration longest_of_member{};
  for (uint64_t seed = 2; seed < 42; seed += 4) {
    const Outcome outcome = simulate({.seed = seed, .of = Of::kSession}, stacks);
    EXPECT_EQ(outcome.violation, "") << seed;
    longest = std::max(longest, outcome.longest_stall);
    longest_of_member = std::max(longest_of_member, outcome.longest_member_stall);
  }
  EXPECT_GT(longest, Duration::zero());
  EXPECT_LE(longest, LinkTrouble::stall_max(MembershipOptions()));
  EXPECT_GT(longest_of_member, Duration::zero());
  EXPECT_LE(longest_of_member, LinkTrouble::stall_max(MembershipOptions()));
}

// A schedule that has found a bug, named by the bug.
struct Found {
  const char* name;
  uint64_t seed;
  Of of = Of::kMembership;
  bool has_all_trouble = false;
};
const Found kFound[] = {
    {"a new life was held to stand still, as the old one did", 271'109'631'111},
    {"who had applied steps without samples only did not begin anew with the others",
     514'545'674'792, Of::kSession},
    {"a share that was lost in one change of the world was due again after the next",
     244'123'856'225, Of::kSession},
    {"who was fenced within a sum of several operations gave to the next of them",
     618'164'670'061, Of::kSession},
    {"two that held themselves for the first wrote one manifest under one unfinished name",
     369'492'012'679, Of::kSession},
    {"who was the last to leave waited for its checkpoint, and not for whoever came meanwhile",
     902'926'699'103, Of::kSession},
    {"who was late to a world that begins from a checkpoint found it damaged, as it was removed",
     899'999'410'723, Of::kSession},
    {"the same, while it could not hear of newer worlds", 662'308'293'595, Of::kSession},
    {"who was in a world that is over, all of whose members were candidates, waited in it", 2,
     Of::kSession},
    {"a job that was done formed a world that nothing could use, and did not grow", 2'480,
     Of::kSession},
    {"a member found that the last checkpoint never comes; the others waited for it",
     105'724'922'047, Of::kSession},
    {"a member waited in the active world for one that had gone on to the next", 508'451'726'122,
     Of::kSession},
    {"a newcomer waited for the state of a member that had ended with the job", 912'186'380'466,
     Of::kSession},
    {"a member waited in the last world for one that had written its end", 661'753'396'346,
     Of::kSession},
    {"a member waited for an author that waited for it in a newer world", 722'251'242'743,
     Of::kSession},
    {"the same, with another author", 866'382'188'351, Of::kSession},
    {"of a job that is done, one that came for the state was taken for stalled", 841'055'527'604,
     Of::kSession},
    {"an older report of a failed world hid a newer one", 337'443'853'142, Of::kSession},
    {"a member in a second lineage was not told that steps of it were stable", 922'744'650'611,
     Of::kSession},
    {"the same, of one that loaded the end from a checkpoint", 943'562'253'248, Of::kSession,
     true},
    {"an author gave up its written share of the last checkpoint; another waited for it",
     466'317'750'396, Of::kSession, true},
    {"a member was left out that had missed another in one world, in place of the isolated one",
     409'635'451'482, Of::kSession, true},
    {"a lost member came back before the others looked, and they waited in the old world",
     757'245'558'301, Of::kSession, true},
    {"the same, after another change", 682'734'427'539, Of::kSession, true},
    {"who found no other member for a moment left a world in which one waited for its step",
     517'680'103'155, Of::kSession, true},
    {"a member that another world left out before it could report was stalled without end",
     851'154'882'330, Of::kSession},
    {"the next world waited for failed ones, though others had followed those for another reason",
     219'901'262'597, Of::kSession, true},
    {"the check waited less long than members that could not connect are kept apart",
     652'600'415'814, Of::kSession},
    {"the check did not wait for the pauses after worlds that had failed before the stall",
     276'194'976'014, Of::kSession},
    {"the check forgot the failed worlds of a stall once the next world was active",
     31'000'306'956, Of::kSession, true},
    {"the check took a checkpoint of a newer lineage for one of the newest state that is held",
     31'002'911'511},
    {"a member died after it took the name of a shard that a manifest had just named",
     20'050'021'276, Of::kSession, true}};

TEST(Simulate, WhatWasFoundOnceIsNotFoundAgain) {
  Stacks stacks;
  for (const Found& found : kFound) {
    const Schedule schedule = {
        .seed = found.seed, .of = found.of, .has_all_trouble = found.has_all_trouble};
    EXPECT_EQ(simulate(schedule, stacks).violation, "") << found.name;
  }
}

class FaultyStoreTest : public ::testing::Test {
 protected:
  void with_store(const std::function<void(FaultyStore&, SimNode&)>& body) {
    sim_.run([&] {
      SimNode& clock = sim_.runtime.make_node("store");
      store::MemoryStore inner(clock);
      inner_ = &inner;
      SimNode& node = sim_.runtime.make_node("node");
      FaultyStore store(inner, clock, sim_.runtime, node, faults_, Mutant::kNone,
                        [](Revision, const Entry&) {});
      body(store, node);
    });
  }

  Simulation sim_;
  Faults faults_;
  store::MemoryStore* inner_ = nullptr;
};

TEST_F(FaultyStoreTest, ALostRequestHasNoEffectAndALostReplyHas) {
  with_store([&](FaultyStore& store, SimNode&) {
    faults_.lose_request = 1;
    EXPECT_FAILS(store.put("k", "1", kNoLease), StatusCode::kUnavailable, "no answer");
    EXPECT_FAILS(inner_->get("k"), StatusCode::kNotFound, "'k'");
    faults_ = {.lose_reply = 1};
    EXPECT_FALSE(store.put("k", "2", kNoLease).ok());
    EXPECT_EQ(inner_->get("k")->value, "2");
  });
}

TEST_F(FaultyStoreTest, WhoIsCutOffGetsNoAnswerAndWhoIsKilledIsCancelled) {
  with_store([&](FaultyStore& store, SimNode& node) {
    store.cut_off_until(sim_.runtime.elapsed() + 1s);
    EXPECT_FAILS(store.put("k", "1", kNoLease), StatusCode::kUnavailable, "no answer");
    sim_.runtime.sleep(2s);
    EXPECT_OK(store.put("k", "1", kNoLease));
    node.kill();
    EXPECT_FAILS(store.get("k"), StatusCode::kCancelled, "killed");
  });
}

TEST_F(FaultyStoreTest, AWaitGoesByTheClockOfWhoWaits) {
  with_store([&](FaultyStore& store, SimNode& node) {
    const Time before = node.now();
    EXPECT_FAILS(store.wait_change("k", 1, before + 10s), StatusCode::kTimeout, "'k'");
    EXPECT_GE(node.now() - before, 9900ms);
    EXPECT_LE(node.now() - before, 10100ms);
  });
}

// Tests the checker itself.
class CheckerTest : public ::testing::Test {
 protected:
  membership::WorldRecord next(std::vector<Member> members, Phase phase) {
    membership::WorldRecord record = checker_.record().value_or(membership::WorldRecord{});
    record.phase = phase;
    if (phase == Phase::kForming) ++record.generation;
    record.members = std::move(members);
    record.lineage = std::max<uint64_t>(record.lineage, 1);
    if (phase == Phase::kActive) {
      record.active_generation = record.generation;
      record.active_lineage = record.lineage;
      record.state_holders = record.members;
    }
    record.term = 1;
    record.leader = record.members.front();
    return record;
  }
  void write(const membership::WorldRecord& record) {
    checker_.on_world(revision_, {"world", encode(record), revision_ + 1, kNoLease});
    ++revision_;
  }
  void form_and_activate(std::vector<Member> members, std::vector<uint64_t> base) {
    write(next(members, Phase::kForming));
    checker_.on_base(checker_.record()->generation, {1, 0, std::move(base)});
    write(next(std::move(members), Phase::kActive));
  }
  World world() const {
    return {.generation = checker_.record()->generation, .lineage = checker_.record()->lineage};
  }

  bool alive_ = false;
  Checker checker_{[this](const Member&) { return alive_; }};
  Revision revision_ = 0;
};

TEST_F(CheckerTest, FindsAWriteThatComparedNothing) {
  form_and_activate({{"a", 1}}, {});
  EXPECT_EQ(checker_.violation(), "");
  checker_.on_world(1, {"world", encode(next({{"b", 1}}, Phase::kForming)), 3, kNoLease});
  EXPECT_THAT(checker_.violation(), ::testing::StartsWith("I1"));
}

TEST_F(CheckerTest, FindsTwoListsOfMembers) {
  form_and_activate({{"a", 1}, {"b", 1}}, {});
  checker_.on_seen(1, {{"b", 1}, {"a", 1}});
  EXPECT_THAT(checker_.violation(), ::testing::StartsWith("I2"));
}

TEST_F(CheckerTest, FindsALostStep) {
  form_and_activate({{"a", 1}}, {});
  checker_.on_stable(world(), {1, 2});
  form_and_activate({{"b", 1}}, {1});
  EXPECT_THAT(checker_.violation(), ::testing::StartsWith("I9"));
}

TEST_F(CheckerTest, FindsTwoHistories) {
  form_and_activate({{"a", 1}}, {});
  checker_.on_stable(world(), {1, 2});
  checker_.on_stable(world(), {1});
  EXPECT_EQ(checker_.violation(), "");
  checker_.on_stable(world(), {1, 3});
  EXPECT_THAT(checker_.violation(), ::testing::StartsWith("I3"));
}

TEST_F(CheckerTest, FindsASumOfDifferentStates) {
  const auto state = [](std::vector<uint64_t> steps) {
    return std::make_shared<const State>(State{1, 1, std::move(steps)});
  };
  checker_.on_sum({state({1}), state({1})});
  EXPECT_EQ(checker_.violation(), "");
  checker_.on_sum({state({1}), state({2})});
  EXPECT_THAT(checker_.violation(), ::testing::StartsWith("I6"));
}

TEST_F(CheckerTest, FindsARestartBesideALivingCarrier) {
  form_and_activate({{"a", 1}}, {});
  membership::WorldRecord anew = next({{"b", 1}}, Phase::kForming);
  anew.state_holders.clear();
  ++anew.lineage;
  alive_ = true;
  write(anew);
  EXPECT_THAT(checker_.violation(), ::testing::StartsWith("I11"));
}

TEST_F(CheckerTest, FindsAStateThatWasGivenUp) {
  form_and_activate({{"a", 1}}, {});
  membership::WorldRecord anew = next({{"b", 1}}, Phase::kForming);
  anew.state_holders.clear();
  ++anew.lineage;
  write(anew);
  EXPECT_EQ(checker_.violation(), "");
  checker_.on_act({.generation = 1, .members = {{"a", 1}}, .lineage = 1});
  EXPECT_THAT(checker_.violation(), ::testing::StartsWith("I11"));
}

// State holders live, and yet a lineage is given up: at least one of them must have settled.
TEST_F(CheckerTest, FindsALineageThatGoesOnBesideAnother) {
  const std::vector<Member> both = {{"a", 1}, {"b", 1}};
  const World before = {.generation = 1, .rank = 1, .members = both, .lineage = 1};
  for (const bool has_state_holder : {true, false}) {
    checker_ = Checker([](const Member&) { return true; });
    revision_ = 0;
    form_and_activate(both, {});
    membership::WorldRecord back = next({{has_state_holder ? "a" : "c", 1}}, Phase::kForming);
    ++back.lineage;
    write(back);
    checker_.on_base(2, {2, 0, {}});
    checker_.on_act(before);  // the new world is not active yet
    EXPECT_EQ(checker_.violation(), "");
    write(next(back.members, Phase::kActive));
    checker_.on_act(before);
    EXPECT_EQ(checker_.violation().empty(), has_state_holder) << checker_.violation();
    if (!has_state_holder) continue;
    checker_.on_act({.generation = 1, .rank = 0, .members = both, .lineage = 1});
    EXPECT_THAT(checker_.violation(), ::testing::StartsWith("I11: 'a'"));
  }
}

TEST_F(CheckerTest, FindsALineageThatBeginsWithAnotherStateThanItsCheckpoints) {
  form_and_activate({{"a", 1}}, {});
  checker_.on_saved("saved", {1, 1, {1}});
  membership::WorldRecord record = *checker_.record();
  record.checkpoint = CheckpointPointer{1, 1, 1, "saved", 0};
  write(record);
  record = next({{"a", 1}}, Phase::kForming);
  ++record.lineage;
  record.restart_base = record.checkpoint;
  write(record);
  checker_.on_base(2, {2, 0, {1, 2}});
  EXPECT_EQ(checker_.violation(), "");
  write(next(record.members, Phase::kActive));
  EXPECT_THAT(checker_.violation(), ::testing::StartsWith("I11: lineage 2 begins"));
}

TEST_F(CheckerTest, FindsAnOlderCheckpoint) {
  form_and_activate({{"a", 1}}, {});
  checker_.on_saved("two", {1, 1, {1, 2}});
  checker_.on_saved("one", {1, 1, {1}});
  membership::WorldRecord record = *checker_.record();
  record.checkpoint = CheckpointPointer{1, 1, 2, "two", 0};
  write(record);
  EXPECT_EQ(checker_.violation(), "");
  record.checkpoint = CheckpointPointer{1, 1, 3, "one", 0};
  write(record);
  EXPECT_THAT(checker_.violation(), ::testing::StartsWith("I8"));
}

TEST_F(CheckerTest, FindsWhatIsTrainedAfterTheEnd) {
  form_and_activate({{"a", 1}}, {});
  checker_.on_stable(world(), {1, 2});
  checker_.on_finished(1, {1, 2});
  checker_.on_stable(world(), {1});  // a member that learned of it late
  EXPECT_EQ(checker_.violation(), "");
  checker_.on_stable({.generation = 9, .lineage = 2}, {3});
  EXPECT_THAT(checker_.violation(), ::testing::StartsWith("I12: step 1 of lineage 2"));
}

TEST_F(CheckerTest, LetsAStoppedMemberLearnLateHowFarALostLineageHadCome) {
  form_and_activate({{"a", 1}}, {});
  checker_.on_stable(world(), {1, 2});
  checker_.on_finished(2, {1, 4});
  checker_.on_stable(world(), {1, 2, 3});
  EXPECT_EQ(checker_.violation(), "");
}

TEST_F(CheckerTest, FindsTwoEnds) {
  checker_.on_finished(1, {1, 2});
  checker_.on_finished(1, {1, 2});
  EXPECT_EQ(checker_.violation(), "");
  checker_.on_finished(1, {1, 3});
  EXPECT_THAT(checker_.violation(), ::testing::StartsWith("I12"));
}

TEST_F(CheckerTest, FindsARecordThatForgetsTheEnd) {
  form_and_activate({{"a", 1}}, {});
  membership::WorldRecord record = *checker_.record();
  record.completion = StateLabel{1, 1, 4, 0};
  write(record);
  EXPECT_EQ(checker_.violation(), "");
  write(next({{"b", 1}}, Phase::kForming));
  EXPECT_EQ(checker_.violation(), "");
  record = next({{"b", 1}}, Phase::kForming);
  record.completion.reset();
  write(record);
  EXPECT_THAT(checker_.violation(), ::testing::StartsWith("I12"));
}

}  // namespace
}  // namespace ffdl::sim
