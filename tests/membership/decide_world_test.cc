#include "membership/decide_world.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/times.h"

namespace ffdl::membership {
namespace {

using namespace std::chrono_literals;
using testing::at;

// "a b2" are member a in its first life and member b in its second.
std::vector<Member> members(const std::string& text) {
  std::vector<Member> result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    const bool numbered = i + 1 < text.size() && text[i + 1] != ' ';
    result.push_back({text.substr(i, 1), numbered ? static_cast<uint64_t>(text[i + 1] - '0') : 1});
    if (numbered) ++i;
  }
  return result;
}

struct Case {
  const char* name;
  // The record: the members of the world, if it is active, and its state holders.
  const char* world;
  bool active;
  const char* state_holders;
  // The facts: candidates in their order of arrival, and those that leave, stall or are dead. State
  // holders that are not candidates are absent since time 0.
  const char* candidates;
  const char* leaving;
  const char* stalled;
  const char* dead;
  // The decision at that time: the next world, or the members to wait for. If neither is set,
  // nothing is to be done.
  Duration now;
  const char* next;
  const char* waiting_for;
  bool begins_anew = false;
  const char* takes_over = "";  // "c a": c takes over from a
};

MembershipOptions options() {
  MembershipOptions options;
  options.gather = 1s;
  options.lease = 300ms;
  options.fence_after = 30s;
  options.fence_margin = 2s;
  options.max_workers = 4;
  return options;
}

constexpr Duration kFenced = 32300ms;  // fence_after + fence_margin + lease

const Case kCases[] = {
    {"the first newcomer waits for others", "", true, "", "a", "", "", "", 999ms, "", ""},
    {"then a world is formed", "", true, "", "a b", "", "", "", 1s, "a b", "", true},
    {"a full world waits for nobody", "", true, "", "a b c d e", "", "", "", 0s, "a b c d", "",
     true},
    {"nobody came or went", "a b", true, "a b", "a b", "", "", "", 9s, "", ""},
    {"growth keeps ranks and adds in order of arrival", "b a", true, "b a", "c a b", "", "", "", 1s,
     "b a c", ""},
    {"growth waits for others", "a", true, "a", "a b", "", "", "", 500ms, "", ""},
    {"growth waits for the world that is forming", "a", false, "a", "a b", "", "", "", 9s, "", ""},
    {"a loss is answered at once", "a b c", true, "a b c", "a c", "", "", "", 0s, "a c", ""},
    {"also while a world is forming", "a b", false, "a", "a", "", "", "", 0s, "a", ""},
    {"a loss takes newcomers along", "a b", true, "a b", "a d", "", "", "", 0s, "a d", ""},
    {"a new life under an old id is somebody else", "a b", true, "a b", "a b2", "", "", "", 0s,
     "a b2", ""},
    {"a carrier that is in no record comes before newcomers", "a", false, "a b", "c b", "", "", "",
     0s, "b c", ""},
    {"no world without a carrier", "a b", true, "a b", "c d", "", "", "", 0s, "", "a b"},
    {"the latest record's members do not help", "a b", false, "a", "b c", "", "", "", 0s, "", "a"},
    {"an old id's new life is no carrier", "a", true, "a", "a2 b", "", "", "", 0s, "", "a"},
    {"one carrier is dead, another may live", "a b", true, "a b", "c", "", "", "a", 0s, "", "b"},
    {"all state_holders are dead: anew", "a b", true, "a b", "c", "", "", "a b", 0s, "c", "", true},
    {"not yet fenced", "a", true, "a", "c", "", "", "", kFenced - 1ns, "", "a"},
    {"fenced: anew", "a", true, "a", "c", "", "", "", kFenced, "c", "", true},
    {"one is dead, one fenced: anew", "a b", true, "a b", "c", "", "", "a", kFenced, "c", "", true},
    {"who begins anew needs no carrier", "a b", false, "", "b", "", "", "", 0s, "b", ""},
    {"a world that is too large keeps its only carrier", "b c d e a", false, "a", "a b c d e", "",
     "", "", 0s, "b c d a", ""},
    {"who leaves is left out", "a b", true, "a b", "a b", "a", "", "", 0s, "b", ""},
    {"unless nobody else has the state", "a", true, "a", "a b", "a", "", "", 1s, "a b", ""},
    {"and then may go once another has it", "a b", true, "a b", "a b", "a", "", "", 0s, "b", ""},
    {"who stands still is left out", "a b", true, "a b", "a b", "", "b", "", 0s, "a", ""},
    {"unless nobody else has the state either", "a b", true, "a", "a b", "", "a", "", 0s, "", ""},
    {"alone and leaving: nothing to form", "a", true, "a", "a", "a", "", "", 0s, "", ""},
    {"who takes over has the other's rank", "a b", true, "a b", "a b c", "", "", "", 0s, "c b", "",
     false, "c a"},
    {"in a full world too", "a b d e", true, "a b d e", "a b d e c", "", "", "", 0s, "a c d e", "",
     false, "c b"},
    {"and the other waits", "a c", false, "a b", "a b c", "", "", "", 9s, "", "", false, "c b"},
    {"also once that world is active", "a c", true, "a c", "a b c", "", "", "", 9s, "", "", false,
     "c b"},
    {"it died: the other comes back", "a c", false, "a b", "a b", "", "", "", 0s, "a b", "", false,
     "c b"},
    {"it wants to go: the other comes back", "a c", false, "a b", "a b c", "c", "", "", 0s, "a b",
     "", false, "c b"},
    {"it stands still: the other comes back", "a c", false, "a b", "a b c", "", "c", "", 0s, "a b",
     "", false, "c b"},
    {"it wants to go after it took over: nobody comes back", "a c", true, "a c", "a b c", "c", "",
     "", 0s, "a", "", false, "c b"},
    {"it died after it took over: the other comes back", "a c", true, "a c", "a b", "", "", "", 0s,
     "a b", "", false, "c b"},
    {"the other died: its place is kept", "a b d", true, "a b d", "b c d", "", "", "", 0s, "c b d",
     "", false, "c a"},
    {"the last carrier stays for a world more", "a", true, "a", "a b", "", "", "", 1s, "a b", "",
     false, "b a"},
    {"which waits as growth does", "a", true, "a", "a b", "", "", "", 999ms, "", "", false, "b a"},
    {"and is kept until it is active", "a b", false, "a", "a b", "", "", "", 9s, "", "", false,
     "b a"},
    {"then it goes", "a b", true, "a b", "a b", "", "", "", 0s, "b", "", false, "b a"},
    {"also one who asked to leave", "a b", true, "a b", "a b c d", "b", "", "", 0s, "a c d", "",
     false, "c a d b"},
    {"of several that are replaced one is enough", "a b", true, "a b", "a b c d", "", "", "", 0s,
     "a c d", "", false, "c a d b"},
    {"full, and all of it replaced: one more for a world", "a b e f", true, "a b e f",
     "a b e f c d g h", "", "", "", 0s, "a c d g h", "", false, "c a d b g e h f"},
    {"the other state_holders died: it stays", "a c", false, "a b", "b c", "", "", "", 0s, "b c",
     "", false, "c b"},
    {"nobody is kept who stands still", "a b", true, "a b", "a b c", "", "b", "", 0s, "a c", "",
     false, "c b"},
    {"of two the first has the place", "a b", true, "a b", "a b d c", "", "", "", 0s, "a d c", "",
     false, "c b d b"},
    {"from one who takes over: the last", "a b", true, "a b", "a b c d", "", "", "", 0s, "a d", "",
     false, "c b d c"},
    {"a new life is somebody else", "a b2", true, "a b2", "a b2 c", "", "", "", 1s, "a b2 c", "",
     false, "c b"},
    {"nobody of that name is there: a newcomer", "a b", true, "a b", "a b c", "", "", "", 1s,
     "a b c", "", false, "c x"},
    {"the place among those who wait", "a d", false, "a b", "a b e f g c", "", "", "", 0s,
     "a c e f", "", false, "c b"},
    {"two from each other: nobody can", "a", true, "a", "a b c", "", "", "", 9s, "", "", false,
     "b c c b"},
};

Facts facts_of(const Case& test, const std::vector<Member>& state_holders) {
  Facts facts;
  const auto has = [](const char* list, const Member& member) {
    const auto all = members(list);
    return std::find(all.begin(), all.end(), member) != all.end();
  };
  for (const Member& member : members(test.candidates)) {
    facts.candidates.push_back({member, has(test.leaving, member), has(test.stalled, member), 0,
                                facts.candidates.size() + 1, at(0s)});
  }
  const auto pairs = members(test.takes_over);
  for (size_t i = 0; i < pairs.size(); i += 2) {
    for (Candidate& candidate : facts.candidates) {
      if (candidate.member == pairs[i]) candidate.takes_over_from = pairs[i + 1];
    }
  }
  for (const Member& member : members(test.dead)) facts.dead[member.id] = member.incarnation;
  for (const Member& carrier : state_holders) {
    if (facts.find(carrier) == nullptr) facts.absent[carrier.id] = at(0s);
  }
  return facts;
}

TEST(DecideWorld, Table) {
  for (const Case& test : kCases) {
    std::optional<WorldRecord> record;
    if (*test.world != '\0') {
      record.emplace();
      record->generation = 7;
      record->phase = test.active ? Phase::kActive : Phase::kForming;
      record->members = members(test.world);
      record->state_holders = members(test.state_holders);
      record->active_generation = test.active ? 7 : 6;
      record->active_lineage = record->lineage = 2;
      record->checkpoint = CheckpointPointer{2, 5, 50, "saved", 1};
    }
    const Facts facts = facts_of(test, members(test.state_holders));
    const WorldDecision decision = decide_world(record, facts, at(test.now), options());
    SCOPED_TRACE(std::string(test.name) + ": " + decision.reason);
    EXPECT_FALSE(decision.reason.empty());
    EXPECT_EQ(decision.waiting_for, members(test.waiting_for));
    if (!decision.next) {
      EXPECT_EQ(*test.next, '\0');
      continue;
    }
    EXPECT_EQ(decision.next->members, members(test.next));
    EXPECT_EQ(decision.next->generation, record ? 8U : 1U);
    EXPECT_EQ(decision.next->phase, Phase::kForming);
    EXPECT_EQ(decision.next->lineage, (record ? 2U : 0U) + (test.begins_anew ? 1 : 0));
    if (test.begins_anew && record) {
      EXPECT_EQ(decision.next->restart_base, record->checkpoint);
      EXPECT_TRUE(decision.next->state_holders.empty());
    } else {
      EXPECT_EQ(decision.next->state_holders, members(test.state_holders));
      EXPECT_EQ(decision.next->restart_base, std::nullopt);
    }
  }
}

// Tests consistent recovery of the world "a b c", which all three members carry.
struct LossCase {
  const char* name;
  const char* candidates;
  const char* leaving;
  const char* stalled;
  const char* dead;
  const char* left;
  const char* next;  // none: nothing is to be done
  bool goes_back;
};

const LossCase kLossCases[] = {
    {"nobody came or went", "a b c", "", "", "", "", "", false},
    {"a death takes the others back", "a c", "", "", "", "", "a c", true},
    {"proved or not", "a c", "", "", "b", "", "a c", true},
    {"a new life does not bring the old one's state", "a b2 c", "", "", "", "", "a c b2", true},
    {"so does one that hangs", "a b c", "", "b", "", "", "a c", true},
    {"who leaves takes nobody back", "a b c", "b", "", "", "", "a c", false},
    {"nor who has left, when others stay after all", "a c", "", "", "b", "b", "a c", false},
    {"another life of it has left", "a c", "", "", "", "b2", "a c", false},
    {"of those who all leave nobody goes back", "a c", "a c", "", "", "", "a c", false},
    {"one comes who stays: they do", "a c d", "a c", "", "", "", "a c d", true},
    {"all are dead: as ever", "d", "", "", "a b c", "", "d", true},
};

TEST(DecideWorld, WithConsistentRecoveryALossTakesAllBack) {
  for (const LossCase& test : kLossCases) {
    SCOPED_TRACE(test.name);
    WorldRecord record;
    record.generation = record.active_generation = 7;
    record.phase = Phase::kActive;
    record.recovery = Recovery::kConsistent;
    record.members = record.state_holders = members("a b c");
    record.active_lineage = record.lineage = 2;
    record.checkpoint = CheckpointPointer{2, 5, 50, "saved", 1};
    const Case as_case = {test.name, "", true, "", test.candidates, test.leaving, test.stalled,
                          test.dead, 0s, "",   ""};
    Facts facts = facts_of(as_case, record.state_holders);
    for (const Member& member : members(test.left)) facts.left[member.id] = member.incarnation;
    // The options of this leader set nothing, since the record decides.
    const WorldDecision decision = decide_world(record, facts, at(9s), options());
    if (!decision.next) {
      EXPECT_EQ(*test.next, '\0') << decision.reason;
      continue;
    }
    const WorldRecord& next = *decision.next;
    EXPECT_EQ(next.members, members(test.next));
    EXPECT_EQ(next.lineage, test.goes_back ? 3U : 2U);
    EXPECT_EQ(next.restart_base, test.goes_back ? record.checkpoint : std::nullopt);
    const bool is_nobody_left = next.state_holders.empty();
    EXPECT_EQ(next.gives_up(), test.goes_back && !is_nobody_left);
    EXPECT_TRUE(is_nobody_left || next.state_holders == record.state_holders);
    // A world that goes back, and loses another member before it is active, keeps its lineage.
    if (!next.gives_up() || facts.candidates.size() < 2) continue;
    std::erase_if(facts.candidates, [&](const Candidate& one) { return one.member.id == "c"; });
    const WorldDecision again = decide_world(next, facts, at(9s), options());
    ASSERT_TRUE(again.next);
    EXPECT_EQ(again.next->lineage, 3U);
    EXPECT_EQ(again.next->restart_base, record.checkpoint);
  }
}

TEST(DecideWorld, AWorldThatGoesBackStillNeedsACarrier) {
  WorldRecord record;
  record.generation = 8;
  record.active_generation = 7;
  record.recovery = Recovery::kConsistent;
  record.members = members("a d");
  record.state_holders = members("a b");
  record.active_lineage = 2;
  record.lineage = 3;
  ASSERT_TRUE(record.gives_up());
  const Case only_d = {"only d", "", true, "", "d", "", "", "", 0s, "", ""};
  Facts facts = facts_of(only_d, record.state_holders);
  EXPECT_EQ(decide_world(record, facts, at(0s), options()).waiting_for, members("a b"));
  facts.dead = {{"a", 1}, {"b", 1}};
  const WorldDecision anew = decide_world(record, facts, at(0s), options());
  ASSERT_TRUE(anew.next);
  EXPECT_EQ(anew.next->lineage, 4U);
  EXPECT_TRUE(anew.next->state_holders.empty());
}

TEST(DecideWorld, TheFirstWorldSaysHowTheJobRecovers) {
  MembershipOptions consistent = options();
  consistent.recovery = Recovery::kConsistent;
  Facts facts;
  facts.candidates = {{{"a", 1}, false, false, 0, 1, at(0s)}};
  EXPECT_EQ(decide_world(std::nullopt, facts, at(9s), consistent).next->recovery,
            Recovery::kConsistent);
  EXPECT_EQ(decide_world(std::nullopt, facts, at(9s), options()).next->recovery,
            Recovery::kForward);
}

TEST(DecideWorld, SaysWhenToAskAgain) {
  Facts facts;
  facts.candidates = {{{"a", 1}, false, false, 0, 1, at(5s)}};
  EXPECT_EQ(decide_world(std::nullopt, facts, at(5s), options()).again, at(6s));

  WorldRecord record;
  record.generation = record.active_generation = 3;
  record.phase = Phase::kActive;
  record.active_lineage = record.lineage = 1;
  record.members = record.state_holders = members("x y");
  facts.absent = {{"x", at(10s)}, {"y", at(12s)}};
  EXPECT_EQ(decide_world(record, facts, at(13s), options()).again, at(12s) + kFenced);
}

TEST(DecideWorld, AWorldThatCameApartIsFormedAgain) {
  WorldRecord record;
  record.generation = 4;
  record.active_generation = 3;
  record.active_lineage = record.lineage = 1;
  record.members = record.state_holders = members("a b");
  Facts facts;
  facts.candidates = {{{"a", 1}, false, false, 3, 1, at(0s)},
                      {{"b", 1}, false, false, 0, 2, at(0s)}};
  EXPECT_FALSE(decide_world(record, facts, at(1s), options()).next) << "that was another one";
  facts.candidates[0].failed_generation = 4;
  const auto decision = decide_world(record, facts, at(1s), options());
  ASSERT_TRUE(decision.next);
  EXPECT_EQ(decision.next->generation, 5U);
  EXPECT_EQ(decision.next->members, record.members);
}

// The first worlds that fail in a row are formed again at once, later ones at growing intervals.
TEST(DecideWorld, WorldsThatFailAgainAndAgainAreFormedEverMoreRarely) {
  struct {
    uint64_t in_a_row;
    Duration pause;
  } const cases[] = {{1, 0s}, {2, 0s}, {3, 1s}, {4, 2s}, {5, 4s}, {8, 4s}, {90, 4s}};
  for (const auto& test : cases) {
    WorldRecord record;
    record.active_generation = 3;
    record.generation = 100;
    record.active_lineage = record.lineage = 1;
    record.members = members("a b");
    record.state_holders = members("a");
    Facts facts;
    facts.formed = at(10s);
    facts.failed_worlds = test.in_a_row - 1;
    facts.candidates = {{{"a", 1}, false, false, record.generation, 1, at(0s)},
                        {{"b", 1}, false, false, 0, 2, at(0s)}};
    if (test.pause > 0s) {
      const auto early = decide_world(record, facts, at(10s + test.pause - 1ms), options());
      EXPECT_FALSE(early.next) << test.in_a_row;
      EXPECT_EQ(early.again, at(10s + test.pause)) << test.in_a_row;
    }
    EXPECT_TRUE(decide_world(record, facts, at(10s + test.pause), options()).next) << test.in_a_row;
    // A member that is gone is left out at once.
    facts.candidates.pop_back();
    EXPECT_TRUE(decide_world(record, facts, at(10s), options()).next) << test.in_a_row;
  }
}

TEST(DecideWorld, FewerThanTheLeastFormNothing) {
  MembershipOptions three = options();
  three.min_workers = 3;
  Facts facts;
  facts.candidates = {{{"a", 1}, false, false, 0, 1, at(0s)},
                      {{"b", 1}, false, false, 0, 2, at(0s)}};
  const WorldDecision decision = decide_world(std::nullopt, facts, at(9s), three);
  EXPECT_FALSE(decision.next);
  EXPECT_EQ(decision.reason, "2 of at least 3 workers are here");
}

// Holds for any facts: a formed world has a state holder, unless each of them is dead or fenced.
TEST(DecideWorld, WhateverTheFactsThereIsACarrier) {
  const auto contains_state_holder = [](const WorldRecord& record) {
    return std::any_of(record.members.begin(), record.members.end(),
                       [](const Member& member) { return member.id == "b" || member.id == "d"; });
  };
  for (unsigned bits = 0; bits < 1U << 16; ++bits) {
    WorldRecord record;
    record.generation = 7;
    record.active_generation = 6;
    record.active_lineage = record.lineage = 1;
    record.members = members("a b c");
    record.state_holders = members("b d");
    Facts facts;
    bool all_are_gone = true;
    for (unsigned i = 0; i < 4; ++i) {
      const Member member = {std::string(1, static_cast<char>('a' + i)), 1};
      const unsigned own = bits >> (3 * i);
      const bool is_state_holder = i == 1 || i == 3;
      if ((own & 1U) != 0) {
        facts.candidates.push_back({member, (own & 2U) != 0, (own & 4U) != 0, 0, i + 1, at(0s)});
        const char next = static_cast<char>('a' + (i + 1) % 4);
        if ((bits >> (12 + i) & 1U) != 0) {
          facts.candidates.back().takes_over_from = {std::string(1, next), 1};
        }
      } else if ((own & 2U) != 0) {
        facts.dead[member.id] = 1;
      } else if (is_state_holder) {
        facts.absent[member.id] = (own & 4U) != 0 ? at(0s) : at(kFenced);
      }
      if (is_state_holder && ((own & 1U) != 0 || (own & 6U) == 0)) all_are_gone = false;
    }
    const WorldDecision decision = decide_world(record, facts, at(kFenced), options());
    if (!decision.next) continue;
    const auto& next = *decision.next;
    const bool holds = contains_state_holder(next);
    EXPECT_EQ(next.lineage, holds ? 1U : 2U) << bits;
    EXPECT_TRUE(holds || all_are_gone) << bits;
    record.recovery = Recovery::kConsistent;
    const auto back = decide_world(record, facts, at(kFenced), options()).next;
    ASSERT_TRUE(back) << bits;
    EXPECT_TRUE(contains_state_holder(*back) || all_are_gone) << bits;
    EXPECT_EQ(back->members, next.members) << bits;
  }
}

// Returns an active world of the first lineage, whose members are its state holders.
WorldRecord active_record(const char* names, Recovery recovery) {
  return {.generation = 7,
          .phase = Phase::kActive,
          .members = members(names),
          .state_holders = members(names),
          .active_generation = 7,
          .active_lineage = 1,
          .lineage = 1,
          .recovery = recovery};
}

// The job is done: its worlds only bring the last state to late members.
TEST(DecideWorld, AJobThatIsDoneBeginsNoLineage) {
  WorldRecord record = active_record("a b", Recovery::kConsistent);
  record.completion = StateLabel{1, 7, 100, 5};
  MembershipOptions least = options();
  least.min_workers = 2;
  const auto candidate = [](const std::string& id, bool leaving) {
    return Candidate{.member = {id, 1}, .leaving = leaving};
  };
  const auto decide = [&](std::vector<Candidate> candidates, Time now) {
    Facts facts;
    facts.candidates = std::move(candidates);
    for (const Member& carrier : record.state_holders) {
      if (facts.find(carrier) == nullptr) facts.absent.emplace(carrier.id, at(0s));
    }
    return decide_world(record, facts, now, least).next;
  };
  EXPECT_FALSE(decide({candidate("c", false)}, at(2 * kFenced))) << "no carrier is left";
  EXPECT_FALSE(decide({candidate("a", true)}, at(0s))) << "one leaves, and nobody came";
  const auto next = decide({candidate("a", true), candidate("c", false)}, at(2s));
  ASSERT_TRUE(next) << "fewer than min_workers, and a carrier was lost";
  EXPECT_EQ(next->lineage, 1U);
  EXPECT_EQ(next->members, members("a c"));
  EXPECT_EQ(next->completion, record.completion);
  record.phase = Phase::kForming;
  record.active_generation = 6;
  EXPECT_TRUE(decide({candidate("a", true), candidate("c", false)}, at(2s)))
      << "no member makes that world active";
}

// Facts of a job whose only state holder "b" is dead for certain.
struct StateCase {
  const char* name;
  const char* candidates;
  const char* leaving;
  std::vector<std::pair<const char*, Holding>> states;  // of the lives of members
  const char* dead;
  const char* left;
  Duration now;
  const char* next;
  const char* waiting_for;
  bool loses_state;
};

Holding holds(StateLabel label, std::optional<Time> absent = {}, uint64_t incarnation = 1) {
  return {incarnation, label, absent};
}

TEST(DecideWorld, ALineageBeginsWithTheNewestState) {
  const Time gone = at(0s);
  const StateCase cases[] = {
      {"nobody holds one", "c d", "", {}, "", "", 0s, "c d", "", true},
      {"one who is here does", "a c", "", {{"a", holds({1, 3, 20})}}, "", "", 0s, "a c", "", false},
      {"it has a place", "c d e f a", "", {{"a", holds({1, 3, 20})}}, "", "", 0s, "c d e a", "",
       false},
      {"the newest of two has it", "c d e f a g", "",
       {{"a", holds({1, 3, 20})}, {"g", holds({1, 4, 2})}}, "", "", 0s, "c d e g", "", false},
      {"also if it leaves", "c a", "a", {{"a", holds({1, 3, 20})}}, "", "", 0s, "c a", "", false},
      {"one who is away may", "c", "", {{"a", holds({1, 3, 20}, gone)}}, "", "", kFenced - 1ns, "",
       "a", false},
      {"not longer than its fence", "c", "", {{"a", holds({1, 3, 20}, gone)}}, "", "", kFenced, "c",
       "", true},
      {"it is dead", "c", "", {{"a", holds({1, 3, 20}, gone)}}, "a", "", 0s, "c", "", true},
      {"it has left", "c", "", {{"a", holds({1, 3, 20}, gone)}}, "", "a", 0s, "c", "", true},
      {"its earlier life is dead", "c", "", {{"a", holds({1, 3, 20}, gone, 2)}}, "a", "", 0s, "",
       "a2", false},
      {"who is here has a newer one", "c", "",
       {{"a", holds({1, 3, 20}, gone)}, {"c", holds({1, 3, 21})}}, "", "", 0s, "c", "", false},
      {"who is here has an older one", "c", "",
       {{"a", holds({1, 3, 20}, gone)}, {"c", holds({1, 3, 19})}}, "", "", 0s, "", "a", false},
      {"a void one", "c", "", {{"a", holds({0, 3, 20}, gone)}}, "", "", 0s, "c", "", true},
  };
  for (const StateCase& test : cases) {
    SCOPED_TRACE(test.name);
    WorldRecord record = active_record("b", Recovery::kForward);
    record.oldest_lineage = 1;
    Facts facts;
    for (const Member& member : members(test.candidates)) {
      const bool leaves = contains(members(test.leaving), member);
      facts.candidates.push_back(
          {.member = member, .leaving = leaves, .joined = facts.candidates.size() + 1});
    }
    for (const auto& [id, state] : test.states) facts.states.emplace(id, state);
    facts.dead["b"] = 1;
    for (const Member& member : members(test.dead)) facts.dead[member.id] = 1;
    for (const Member& member : members(test.left)) facts.left[member.id] = 1;
    const WorldDecision decision = decide_world(record, facts, at(test.now), options());
    EXPECT_EQ(decision.waiting_for, members(test.waiting_for)) << decision.reason;
    EXPECT_EQ(decision.next.has_value(), *test.next != '\0') << decision.reason;
    if (!decision.next) {
      EXPECT_EQ(decision.again, at(kFenced));
      EXPECT_TRUE(decision.warns);
      continue;
    }
    EXPECT_EQ(decision.next->members, members(test.next));
    EXPECT_EQ(decision.next->lineage, record.lineage + 1);
    EXPECT_EQ(decision.loses_state, test.loses_state);
  }
}

// If another candidate holds the same state, the one that stands still is not needed.
TEST(DecideWorld, OneThatStandsStillWithTheNewestStateHasAPlace) {
  const WorldRecord record = active_record("b", Recovery::kForward);
  Facts facts;
  facts.candidates = {{.member = {"c", 1}}, {.member = {"a", 1}, .stalled = true}};
  facts.dead["b"] = 1;
  facts.states.emplace("a", holds({1, 3, 20}));
  auto next = decide_world(record, facts, at(0s), options()).next;
  ASSERT_TRUE(next);
  EXPECT_EQ(next->members, members("c a"));
  facts.states.emplace("c", holds({1, 3, 20}));
  next = decide_world(record, facts, at(0s), options()).next;
  ASSERT_TRUE(next);
  EXPECT_EQ(next->members, members("c"));
}

// A checkpoint is never gone behind. With consistent recovery the state is that of the checkpoint.
TEST(DecideWorld, NobodyIsWaitedForWithAStateThatDoesNotCount) {
  WorldRecord record = active_record("b", Recovery::kForward);
  record.checkpoint = CheckpointPointer{1, 3, 30, "c", 0};
  Facts facts;
  facts.candidates = {{.member = {"c", 1}}};
  facts.dead["b"] = 1;
  facts.states.emplace("a", holds({1, 3, 29}, at(0s)));
  EXPECT_TRUE(decide_world(record, facts, at(0s), options()).next);
  facts.states.at("a").label.step = 31;
  EXPECT_FALSE(decide_world(record, facts, at(0s), options()).next);
  record.recovery = Recovery::kConsistent;
  EXPECT_TRUE(decide_world(record, facts, at(0s), options()).next);
}

TEST(DecideWorld, SaysWhenTheWholeStateIsLost) {
  WorldRecord record = active_record("a", Recovery::kForward);
  Facts facts;
  facts.candidates = {{.member = {"b", 1}}};
  facts.dead["a"] = 1;
  EXPECT_TRUE(decide_world(record, facts, at(9s), options()).loses_state);
  record.checkpoint = CheckpointPointer{1, 7, 50, "c", 0};
  EXPECT_FALSE(decide_world(record, facts, at(9s), options()).loses_state);
}

// With consistent recovery, members that hold the state give it up, even if no checkpoint exists.
TEST(DecideWorld, SaysWhenAllGoBackToTheBeginning) {
  WorldRecord record = active_record("a b", Recovery::kConsistent);
  Facts facts;
  facts.candidates = {{.member = {"a", 1}}};
  const WorldDecision decision = decide_world(record, facts, at(9s), options());
  ASSERT_TRUE(decision.next);
  EXPECT_TRUE(decision.warns);
  EXPECT_NE(decision.reason.find("go back to step 0, as 'b' is lost and no checkpoint"),
            std::string::npos)
      << decision.reason;
  record.checkpoint = CheckpointPointer{1, 7, 50, "c", 0};
  const WorldDecision with = decide_world(record, facts, at(9s), options());
  EXPECT_FALSE(with.warns);
  EXPECT_NE(with.reason.find("the newest checkpoint, as 'b' is lost"), std::string::npos);
}

TEST(DecideWorld, ACarrierHoldsTheStateUntilItsFenceOrItsEnd) {
  Facts facts;
  const Member a = {"a", 1};
  facts.candidates = {{.member = a}};
  EXPECT_EQ(holds_until(a, facts, at(0s), options()), kNoDeadline);
  facts.candidates.clear();
  facts.absent.emplace("a", at(0s));
  EXPECT_EQ(holds_until(a, facts, at(5s), options()), at(kFenced));
  facts.left["a"] = 1;
  EXPECT_EQ(holds_until(a, facts, at(5s), options()), std::nullopt);
  facts.left.clear();
  facts.dead["a"] = 1;
  EXPECT_EQ(holds_until(a, facts, at(5s), options()), std::nullopt);
}

}  // namespace
}  // namespace ffdl::membership
