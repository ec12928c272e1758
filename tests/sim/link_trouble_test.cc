#include "sim/link_trouble.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "membership/decide_world.h"
#include "sim/checker.h"
#include "sim/faulty_store.h"
#include "sim/process.h"
#include "sim/sim_communicator.h"
#include "sim/sim_runtime.h"
#include "store/local/memory_store.h"

namespace ffdl::sim {
namespace {

using namespace std::chrono_literals;

// A member whose state the test sets.
struct FakeMember final : Process {
  FakeMember(SimNode& node, std::unique_ptr<FaultyStore> store, const std::string& id,
             const std::string& takes_over_from)
      : Process(node, std::move(store), id, takes_over_from), member{id, 1} {}

  const Member* self() const override { return is_open ? &member : nullptr; }
  bool may_use_state() const override { return !node_.is_killed() && is_open && is_alive; }
  uint64_t applied_steps() const override { return steps; }
  bool is_finishing() const override { return finishes; }

  const Member member;
  uint64_t steps = 0;
  bool is_open = true;
  bool is_alive = true;
  bool finishes = false;
};

Duration bound() { return LinkTrouble::stall_max(MembershipOptions()); }

// A job whose members 'a' and 'c' make steps, while 'b' is still.
struct Job {
  Job() : runtime(1, stacks), clock(runtime.make_node("store")) {}

  // Runs a body in an active world of these members.
  void run(const std::function<void()>& body) {
    const auto director = [&] {
      for (const char* id : {"a", "b", "c"}) add(id);
      record.members = {{"a", 1}, {"b", 1}, {"c", 1}};
      record.generation = record.lineage = record.term = 1;
      record.leader = record.members.front();
      write();
      checker.on_base(1, {1, 0, {}});
      record.phase = Phase::kActive;
      record.active_generation = record.active_lineage = 1;
      record.state_holders = record.members;
      write();
      body();
      members.clear();
    };
    EXPECT_EQ(runtime.run(director), "");
  }
  void write() {
    checker.on_world(revision, {"world", encode(record), revision + 1, kNoLease});
    ++revision;
  }
  FakeMember& add(const std::string& id, const std::string& takes_over_from = "") {
    SimNode& node = runtime.make_node(id);
    auto store = std::make_unique<FaultyStore>(inner, clock, runtime, node, faults, Mutant::kNone,
                                               [](Revision, const Entry&) {});
    auto member = std::make_unique<FakeMember>(node, std::move(store), id, takes_over_from);
    FakeMember& added = *member;
    members.push_back(std::move(member));
    return added;
  }
  FakeMember& member(size_t index) { return static_cast<FakeMember&>(*members[index]); }
  FakeMember& b() { return member(1); }
  Duration later() const { return runtime.elapsed() + 1h; }
  // One rank cannot connect to the other in so many worlds.
  void miss(int rank, int other, int worlds) {
    for (int i = 0; i < worlds; ++i) {
      exchange.miss({.generation = 1, .rank = rank, .members = record.members}, {other});
    }
  }
  // Measures after so much time, in which all others made a step.
  void measure_after(Duration time) {
    runtime.sleep(time);
    for (size_t i = 0; i < members.size(); ++i) {
      if (i == 1) continue;
      ++member(i).steps;
      checker.on_step(step, step + 1, step + 1);
      ++step;
    }
    links.measure(members, MembershipOptions());
    links.measure_members(members, MembershipOptions());
  }

  Stacks stacks;
  SimRuntime runtime;
  SimNode& clock;
  store::MemoryStore inner{clock};
  Exchange exchange{runtime};
  Checker checker{[](const Member&) { return true; }};
  LinkTrouble links{runtime, exchange, checker};
  LinkTrouble::Processes members;
  Faults faults;
  membership::WorldRecord record;
  Revision revision = 0;
  uint64_t step = 0;
};

TEST(LinkTrouble, FindsAHealthyMemberThatIsStillBeyondTheBound) {
  Job job;
  job.run([&] {
    job.measure_after(1s);
    EXPECT_EQ(job.links.longest_member_stall(), 0s);  // measured from the first call on
    job.measure_after(bound());
    EXPECT_EQ(job.links.longest_member_stall(), bound());
    EXPECT_EQ(job.checker.violation(), "");
    job.measure_after(1ns);
    EXPECT_THAT(job.checker.violation(),
                ::testing::StartsWith("stall of a member: 'b' applied no step for 1700 ms, and all "
                                      "others 4 steps; record {"));
    EXPECT_EQ(job.links.longest_stall(), 0s);  // the job went on
  });
}

TEST(LinkTrouble, AStepEndsTheStall) {
  Job job;
  job.run([&] {
    job.measure_after(0s);
    job.measure_after(bound());
    ++job.b().steps;
    job.measure_after(1ns);
    job.measure_after(bound());
    EXPECT_EQ(job.checker.violation(), "");
    job.measure_after(1ns);
    EXPECT_NE(job.checker.violation(), "");
  });
}

// Begins the stall of a member that was not healthy when it is healthy again.
TEST(LinkTrouble, AMemberThatIsHealthyAgainHasTheWholeBound) {
  Job job;
  job.run([&] {
    job.exchange.cut("a", "b", job.later());
    job.measure_after(0s);
    job.measure_after(10s);
    job.exchange.restore_links();
    job.measure_after(1s);
    job.measure_after(bound());
    EXPECT_EQ(job.checker.violation(), "");
    job.measure_after(1ns);
    EXPECT_NE(job.checker.violation(), "");
  });
}

// The rules make the fourth world in a row wait.
TEST(LinkTrouble, AStallAfterFailedWorldsHasTheTimeOfAPauseMore) {
  for (const uint64_t failed : {2, 3}) {
    Job job;
    job.run([&] {
      const Duration most = failed < membership::kFailedWorldsFree
                                ? bound()
                                : LinkTrouble::stall_after_failures_max(MembershipOptions());
      job.record.generation += failed;
      job.record.phase = Phase::kForming;
      job.write();
      job.measure_after(0s);
      job.measure_after(most);
      EXPECT_EQ(job.checker.violation(), "");
      job.measure_after(1ns);
      EXPECT_NE(job.checker.violation(), "");
    });
  }
}

struct Case {
  const char* name;
  bool is_found;
  std::function<void(Job&)> change;
};

void complete(Job& job) {
  job.record.completion = StateLabel{1, 1, 4, 0};
  job.write();
}

// Forms a world of 'a' alone.
void go_on_without_the_others(Job& job) {
  job.record.generation = job.record.active_generation = 2;
  job.record.members = job.record.state_holders = {{"a", 1}};
  job.write();
}

const Case kCases[] = {
    {"healthy", true, [](Job&) {}},
    {"cut off from the store", false, [](Job& job) { job.b().store().cut_off_until(job.later()); }},
    {"a link to it is cut", false, [](Job& job) { job.exchange.cut("a", "b", job.later()); }},
    {"a link from it is cut", false, [](Job& job) { job.exchange.cut("b", "c", job.later()); }},
    {"a link of others is cut", false, [](Job& job) { job.exchange.cut("c", "a", job.later()); }},
    {"a link to one that is cut off from the store is cut", true,
     [](Job& job) {
       job.exchange.cut("b", "c", job.later());
       job.member(2).store().cut_off_until(job.later());
     }},
    {"the only state holder is cut off from the store", false,
     [](Job& job) {
       go_on_without_the_others(job);
       job.member(0).store().cut_off_until(job.later());
     }},
    {"the only state holder is another one", true, go_on_without_the_others},
    {"a link to a killed one is cut", true,
     [](Job& job) {
       job.exchange.cut("b", "c", job.later());
       job.member(2).node().kill();
     }},
    {"stopped", false, [](Job& job) { job.b().node().pause_until(job.later()); }},
    {"killed", false, [](Job& job) { job.b().node().kill(); }},
    {"joins", false, [](Job& job) { job.b().is_open = false; }},
    {"fenced", false, [](Job& job) { job.b().is_alive = false; }},
    {"asked to leave", false, [](Job& job) { job.b().ask_to_leave(); }},
    {"another one is asked to leave", true, [](Job& job) { job.member(0).ask_to_leave(); }},
    {"another one joins", true, [](Job& job) { job.add("d").is_open = false; }},
    {"replaced", false, [](Job& job) { job.add("d", "b").is_open = false; }},
    {"another one is replaced", true, [](Job& job) { job.add("d", "c").is_open = false; }},
    {"finishes", false, [](Job& job) { job.b().finishes = true; }},
    {"another one finishes", false, [](Job& job) { job.member(0).finishes = true; }},
    {"the job is done", false, complete},
    {"missed another in two worlds", true, [](Job& job) { job.miss(1, 0, 2); }},
    {"missed another in three worlds", false, [](Job& job) { job.miss(1, 0, 3); }},
    {"was missed by another in three worlds", false, [](Job& job) { job.miss(0, 1, 3); }},
    {"two others missed each other in three worlds", true, [](Job& job) { job.miss(0, 2, 3); }},
    {"missed another in three worlds, and connected since", true,
     [](Job& job) {
       job.miss(1, 0, 3);
       job.exchange.connected({.generation = 2, .rank = 1, .members = job.record.members});
     }},
};

TEST(LinkTrouble, FindsOnlyMembersThatMustMakeSteps) {
  for (const Case& one : kCases) {
    Job job;
    job.run([&] {
      one.change(job);
      job.measure_after(0s);
      job.measure_after(bound() + 1ns);
      EXPECT_EQ(!job.checker.violation().empty(), one.is_found) << one.name;
    });
  }
}

// A world that forms has no state yet, and no steps.
TEST(LinkTrouble, FindsNoneBeforeAWorldIsActive) {
  Job job;
  job.run([&] {
    job.checker = Checker([](const Member&) { return true; });
    job.revision = job.step = 0;
    job.record = {.generation = 1, .members = job.record.members, .lineage = 1, .term = 1};
    job.record.leader = job.record.members.front();
    job.write();
    job.measure_after(0s);
    job.measure_after(bound() + 1ns);
    EXPECT_EQ(job.checker.violation(), "");
  });
}

}  // namespace
}  // namespace ffdl::sim
