#include "membership/leave_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "membership/decide_world.h"
#include "support/times.h"

namespace ffdl::membership {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using testing::at;
using ::testing::HasSubstr;

constexpr Duration kFailed = 10s;  // when the last world failed

Member member(char name) { return {std::string(1, name), 1}; }

std::vector<Member> named(const std::string& names) {
  std::vector<Member> result;
  for (const char name : names) result.push_back(member(name));
  return result;
}

std::string names(const std::vector<Member>& members) {
  std::string result;
  for (const Member& one : members) result += one.id;
  return result;
}

struct Missing {
  const char* name;
  const char* candidates;  // in the order of arrival
  const char* state_holders;
  // "ax3 bx2": a could not connect to x in three worlds, b in two.
  const char* unreached;
  int min_workers;
  Duration since;  // after the last world failed
  const char* left_out;
};

Facts facts_of(const Missing& test) {
  Facts facts;
  Revision joined = 0;
  for (const char* name = test.candidates; *name != '\0'; ++name) {
    facts.candidates.push_back({.member = member(*name), .joined = ++joined, .since = at(0s)});
  }
  const std::string text = test.unreached;
  for (size_t i = 0; i + 2 < text.size(); i += 4) {
    for (Candidate& candidate : facts.candidates) {
      if (candidate.member != member(text[i])) continue;
      const Member other = member(text[i + 1]);
      candidate.unreached.push_back({other.id, 1, static_cast<uint64_t>(text[i + 2] - '0')});
      candidate.unreached_since[other.id] = at(kFailed);
    }
  }
  return facts;
}

WorldRecord record_of(const Missing& test) {
  WorldRecord record;
  record.generation = 9;
  record.active_generation = 5;
  record.lineage = record.active_lineage = 1;
  record.members = named(test.candidates);
  record.state_holders = named(test.state_holders);
  return record;
}

MembershipOptions with_least(const Missing& test) {
  MembershipOptions options;
  options.min_workers = test.min_workers;
  return options;
}

const Missing kMissing[] = {
    {"nobody is missed", "abx", "ab", "", 1, 0s, ""},
    {"two worlds are no reason", "abx", "ab", "ax2 bx2 xa2 xb2", 1, 0s, ""},
    {"after three the one that all miss", "abx", "ab", "ax3 bx3 xa3 xb3", 1, 0s, "x"},
    {"one side is enough", "abx", "ab", "ax3 bx3", 1, 0s, "x"},
    {"its own word is enough", "abx", "ab", "xa3 xb3", 1, 0s, "x"},
    {"it came first", "xab", "", "ax3 bx3", 1, 0s, "x"},
    {"it is a state holder as the others", "xab", "xab", "ax3 bx3", 1, 0s, "x"},
    {"a word of two worlds tells who is missed by most", "xab", "", "ax3 bx2", 1, 0s, "x"},
    {"all miss two others, and the cause in more worlds", "xab", "xab", "xa3 bx4 ba1", 1, 0s, "x"},
    {"of two that miss each other the newcomer", "ab", "b", "ab3", 1, 0s, "a"},
    {"of two newcomers the later", "ab", "", "ab3", 1, 0s, "b"},
    {"the only state holder stays", "abc", "a", "ab3 ac3", 1, 0s, "cb"},
    {"two that cannot be reached", "abxy", "ab", "ax3 bx3 ay3 by3 xy3", 1, 0s, "yx"},
    {"two islands: that of the last", "abcd", "abcd", "ac3 ad3 bc3 bd3", 1, 0s, "dc"},
    {"too few would remain", "abx", "ab", "ax3 bx3", 3, 0s, ""},
    {"kept apart for a second", "abx", "ab", "ax3 bx3", 1, 999ms, "x"},
    {"and then tried again", "abx", "ab", "ax3 bx3", 1, 1s, ""},
    {"the next time for two", "abx", "ab", "ax4 bx4", 1, 1999ms, "x"},
    {"and tried again", "abx", "ab", "ax4 bx4", 1, 2s, ""},
    {"at last for a minute", "abx", "ab", "ax9 bx9", 1, 63s, "x"},
    {"and tried again all the same", "abx", "ab", "ax9 bx9", 1, 64s, ""},
};

TEST(LeaveOut, WhoCannotBeReachedForATime) {
  for (const Missing& test : kMissing) {
    const LeftOut left_out = choose_left_out(record_of(test), facts_of(test),
                                             at(kFailed + test.since), with_least(test));
    EXPECT_EQ(names(left_out.members), test.left_out) << test.name;
    EXPECT_EQ(left_out.why.empty(), left_out.members.empty()) << test.name;
    EXPECT_EQ(left_out.again == kNoDeadline, left_out.members.empty()) << test.name;
  }
}

TEST(LeaveOut, TheReasonNamesMembersAddressesAndWhatToCheck) {
  const Missing test = {"", "abx", "ab", "ax3 bx3", 1, 0s, ""};
  Facts facts = facts_of(test);
  for (Candidate& candidate : facts.candidates) {
    candidate.member.address = "10.0.0." + candidate.member.id;
  }
  const LeftOut left_out = choose_left_out(record_of(test), facts, at(kFailed), with_least(test));
  EXPECT_THAT(left_out.why,
              AllOf(HasSubstr("'x' at 10.0.0.x"), HasSubstr("'a' at 10.0.0.a, 'b' at 10.0.0.b"),
                    HasSubstr("in 3 worlds"), HasSubstr("firewall or route")));
  EXPECT_EQ(left_out.again, at(kFailed + 1s));
}

// Another life of the member may run on another host.
TEST(LeaveOut, WhatWasSaidOfALifeBeforeDoesNotCount) {
  const Missing test = {"", "abx", "ab", "ax3 bx3", 1, 0s, ""};
  Facts facts = facts_of(test);
  facts.candidates.back().member.incarnation = 2;
  EXPECT_TRUE(
      choose_left_out(record_of(test), facts, at(kFailed), with_least(test)).members.empty());
}

// --- the decision --------------------------------------------------------------------------------

TEST(LeaveOut, TheNextWorldDoesWithoutIt) {
  const Missing test = {"", "abx", "ab", "ax3 bx3", 1, 0s, ""};
  Facts facts = facts_of(test);
  facts.candidates.front().failed_generation = record_of(test).generation;
  facts.formed = at(kFailed);
  const auto decision = decide_world(record_of(test), facts, at(kFailed), with_least(test));
  ASSERT_TRUE(decision.next);
  EXPECT_EQ(names(decision.next->members), "ab");
  EXPECT_EQ(names(decision.left_out), "x");
  EXPECT_EQ(decision.again, at(kFailed + 1s));
  // When its time is over while the others train, it is tried again.
  WorldRecord active = *decision.next;
  active.phase = Phase::kActive;
  active.active_generation = active.generation;
  active.state_holders = active.members;
  EXPECT_FALSE(decide_world(active, facts, at(kFailed + 999ms), with_least(test)).next);
  const auto again = decide_world(active, facts, at(kFailed + 1s), with_least(test));
  ASSERT_TRUE(again.next);
  EXPECT_EQ(names(again.next->members), "abx");
}

// No step may be lost because of a broken link.
TEST(LeaveOut, NoWorldIsWithoutACarrier) {
  const Missing test = {"", "abx", "x", "ax3 bx3 xa3 xb3", 1, 0s, ""};
  Facts facts = facts_of(test);
  facts.candidates.front().failed_generation = record_of(test).generation;
  const auto decision = decide_world(record_of(test), facts, at(kFailed), with_least(test));
  ASSERT_TRUE(decision.next);
  EXPECT_EQ(names(decision.next->members), "x");
  EXPECT_EQ(decision.next->lineage, record_of(test).lineage);
}

// An unreachable member takes no place over, and the other member keeps it.
TEST(LeaveOut, WhoseSuccessorCannotBeReachedStays) {
  const Missing test = {"", "abx", "ab", "ax3 bx3", 1, 0s, ""};
  Facts facts = facts_of(test);
  facts.candidates.back().takes_over_from = member('b');
  facts.candidates.front().failed_generation = record_of(test).generation;
  const auto decision = decide_world(record_of(test), facts, at(kFailed), with_least(test));
  ASSERT_TRUE(decision.next);
  EXPECT_EQ(names(decision.next->members), "ab");
}

// Members that have another state than the lost one go back together.
TEST(LeaveOut, WithConsistentRecoveryItIsLost) {
  const Missing test = {"", "abx", "abx", "ax3 bx3", 1, 0s, ""};
  WorldRecord record = record_of(test);
  record.recovery = Recovery::kConsistent;
  const auto decision = decide_world(record, facts_of(test), at(kFailed), with_least(test));
  ASSERT_TRUE(decision.next);
  EXPECT_EQ(names(decision.next->members), "ab");
  EXPECT_EQ(decision.next->lineage, record.lineage + 1);
}

}  // namespace
}  // namespace ffdl::membership
