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
  // The record: who is in the world, whether it is active, and who carries the state.
  const char* world;
  bool active;
  const char* carriers;
  // The facts: candidates in the order in which they came, those that leave, that stand still, that
  // are dead, and carriers absent since time 0.
  const char* candidates;
  const char* leaving;
  const char* stalled;
  const char* dead;
  // The answer at that time: the next world, or for whom to wait; neither: nothing to do.
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
    {"all carriers are dead: anew", "a b", true, "a b", "c", "", "", "a b", 0s, "c", "", true},
    {"not yet fenced", "a", true, "a", "c", "", "", "", kFenced - 1ns, "", "a"},
    {"fenced: anew", "a", true, "a", "c", "", "", "", kFenced, "c", "", true},
    {"one is dead, one fenced: anew", "a b", true, "a b", "c", "", "", "a", kFenced, "c", "", true},
    {"who begins anew needs no carrier", "a b", false, "", "b", "", "", "", 0s, "b", ""},
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
    {"the other carriers died: it stays", "a c", false, "a b", "b c", "", "", "", 0s, "b c", "",
     false, "c b"},
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

Facts facts_of(const Case& test, const std::vector<Member>& carriers) {
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
  for (const Member& carrier : carriers) {
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
      record->carriers = members(test.carriers);
      record->active_generation = test.active ? 7 : 6;
      record->active_lineage = record->lineage = 2;
      record->checkpoint = CheckpointPointer{2, 5, 50, "saved", 1};
    }
    const Facts facts = facts_of(test, members(test.carriers));
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
      EXPECT_TRUE(decision.next->carriers.empty());
    } else {
      EXPECT_EQ(decision.next->carriers, members(test.carriers));
      EXPECT_EQ(decision.next->restart_base, std::nullopt);
    }
  }
}

// With consistent recovery, of the world "a b c" that is carried by all three.
struct LossCase {
  const char* name;
  const char* candidates;
  const char* leaving;
  const char* stalled;
  const char* dead;
  const char* left;
  const char* next;  // none: nothing to do
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
    record.members = record.carriers = members("a b c");
    record.active_lineage = record.lineage = 2;
    record.checkpoint = CheckpointPointer{2, 5, 50, "saved", 1};
    const Case as_case = {test.name, "", true, "", test.candidates, test.leaving, test.stalled,
                          test.dead, 0s, "",   ""};
    Facts facts = facts_of(as_case, record.carriers);
    for (const Member& member : members(test.left)) facts.left[member.id] = member.incarnation;
    // The options of this leader say nothing: the record does.
    const WorldDecision decision = decide_world(record, facts, at(9s), options());
    if (!decision.next) {
      EXPECT_EQ(*test.next, '\0') << decision.reason;
      continue;
    }
    const WorldRecord& next = *decision.next;
    EXPECT_EQ(next.members, members(test.next));
    EXPECT_EQ(next.lineage, test.goes_back ? 3U : 2U);
    EXPECT_EQ(next.restart_base, test.goes_back ? record.checkpoint : std::nullopt);
    const bool is_nobody_left = next.carriers.empty();
    EXPECT_EQ(next.gives_up(), test.goes_back && !is_nobody_left);
    EXPECT_TRUE(is_nobody_left || next.carriers == record.carriers);
    // A world that goes back, and loses one more before it is active, is the same lineage's.
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
  record.carriers = members("a b");
  record.active_lineage = 2;
  record.lineage = 3;
  ASSERT_TRUE(record.gives_up());
  const Case only_d = {"only d", "", true, "", "d", "", "", "", 0s, "", ""};
  Facts facts = facts_of(only_d, record.carriers);
  EXPECT_EQ(decide_world(record, facts, at(0s), options()).waiting_for, members("a b"));
  facts.dead = {{"a", 1}, {"b", 1}};
  const WorldDecision anew = decide_world(record, facts, at(0s), options());
  ASSERT_TRUE(anew.next);
  EXPECT_EQ(anew.next->lineage, 4U);
  EXPECT_TRUE(anew.next->carriers.empty());
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
  record.members = record.carriers = members("x y");
  facts.absent = {{"x", at(10s)}, {"y", at(12s)}};
  EXPECT_EQ(decide_world(record, facts, at(13s), options()).again, at(12s) + kFenced);
}

TEST(DecideWorld, AWorldThatCameApartIsFormedAgain) {
  WorldRecord record;
  record.generation = 4;
  record.active_generation = 3;
  record.active_lineage = record.lineage = 1;
  record.members = record.carriers = members("a b");
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

// Any facts at all: what is formed holds a carrier, unless each of them is dead or fenced.
TEST(DecideWorld, WhateverTheFactsThereIsACarrier) {
  const auto holds_carrier = [](const WorldRecord& record) {
    return std::any_of(record.members.begin(), record.members.end(),
                       [](const Member& member) { return member.id == "b" || member.id == "d"; });
  };
  for (unsigned bits = 0; bits < 1U << 16; ++bits) {
    WorldRecord record;
    record.generation = 7;
    record.active_generation = 6;
    record.active_lineage = record.lineage = 1;
    record.members = members("a b c");
    record.carriers = members("b d");
    Facts facts;
    bool all_are_gone = true;
    for (unsigned i = 0; i < 4; ++i) {
      const Member member = {std::string(1, static_cast<char>('a' + i)), 1};
      const unsigned own = bits >> (3 * i);
      const bool is_carrier = i == 1 || i == 3;
      if ((own & 1U) != 0) {
        facts.candidates.push_back({member, (own & 2U) != 0, (own & 4U) != 0, 0, i + 1, at(0s)});
        const char next = static_cast<char>('a' + (i + 1) % 4);
        if ((bits >> (12 + i) & 1U) != 0) {
          facts.candidates.back().takes_over_from = {std::string(1, next), 1};
        }
      } else if ((own & 2U) != 0) {
        facts.dead[member.id] = 1;
      } else if (is_carrier) {
        facts.absent[member.id] = (own & 4U) != 0 ? at(0s) : at(kFenced);
      }
      if (is_carrier && ((own & 1U) != 0 || (own & 6U) == 0)) all_are_gone = false;
    }
    const WorldDecision decision = decide_world(record, facts, at(kFenced), options());
    if (!decision.next) continue;
    const auto& next = *decision.next;
    const bool holds = holds_carrier(next);
    EXPECT_EQ(next.lineage, holds ? 1U : 2U) << bits;
    EXPECT_TRUE(holds || all_are_gone) << bits;
    record.recovery = Recovery::kConsistent;
    const auto back = decide_world(record, facts, at(kFenced), options()).next;
    ASSERT_TRUE(back) << bits;
    EXPECT_TRUE(holds_carrier(*back) || all_are_gone) << bits;
    EXPECT_EQ(back->members, next.members) << bits;
  }
}

}  // namespace
}  // namespace ffdl::membership
