#include "data/ledger/ledger_state.h"

#include "data/ledger_text.h"

namespace ffdl::data {
namespace {

using testing::members;
using testing::text_of;

LedgerRules rules(uint64_t samples, uint64_t partition_samples, uint64_t epochs = 1) {
  LedgerRules rules;
  rules.data.samples = samples;
  rules.data.partition_samples = partition_samples;
  rules.data.shuffle = Shuffle::kNone;
  rules.epochs = epochs;
  return rules;
}

LedgerRules global_rules(uint64_t samples, uint64_t batch, uint64_t micro_batch = 1) {
  LedgerRules global = rules(samples, 4, 2);
  global.order = SampleOrder::kGlobal;
  global.batch_samples = batch;
  global.micro_batch_samples = micro_batch;
  return global;
}

LedgerState with_members(const LedgerRules& rules, const std::string& text) {
  LedgerState state(rules);
  state.change_members(members(text));
  return state;
}

TEST(LedgerState, AMemberGetsAPartitionWhenItComesAndMoreWhenItWants) {
  LedgerState state = with_members(rules(28, 4), "a b");
  EXPECT_EQ(text_of(state), "a 0:0-4 | b 1:0-4");
  state.commit(1, std::vector<Claim>{{3, 3}, {4, 2}});
  EXPECT_EQ(text_of(state), "a 0:3-4 3:0-4 5:0-4 | b 2:0-4 4:0-4") << "one to each, then another";
  EXPECT_EQ(state.committed(), 7U);
  EXPECT_EQ(text_of(state.front(0, 2)), "0:3-4 3:0-1");
  EXPECT_EQ(text_of(state.front(1, 100)), "2:0-4 4:0-4");
  EXPECT_EQ(state.last().step, 1U);
  ASSERT_EQ(state.last().parts.size(), 2U);
  EXPECT_EQ(state.last().parts[1].member, (Member{"b", 1}));
  EXPECT_EQ(state.last().parts[1].range, (SampleRange{1, 0, 4}));
}

TEST(LedgerState, WhatTheLostHeldGoesOutAgainFirstFromWhereItStood) {
  LedgerState state = with_members(rules(40, 4), "a b");
  state.commit(1, std::vector<Claim>{{1, 1}, {2, 1}});
  state.change_members(members("a c"));
  EXPECT_EQ(text_of(state), "a 0:1-4 | c 1:2-4");
  EXPECT_EQ(state.committed(), 3U);
}

TEST(LedgerState, ANewLifeIsSomebodyElse) {
  LedgerState state = with_members(rules(40, 4), "a b");
  state.commit(1, std::vector<Claim>{{1, 2}, {2, 2}});
  EXPECT_EQ(text_of(state), "a 0:1-4 2:0-4 | b 1:2-4 3:0-4");
  state.change_members(members("a b2"));
  EXPECT_EQ(text_of(state), "a 0:1-4 2:0-4 | b 1:2-4");
  state.commit(2, std::vector<Claim>{{0, 2}, {0, 2}});
  EXPECT_EQ(text_of(state), "a 0:1-4 2:0-4 | b 1:2-4 3:0-4");
}

TEST(LedgerState, WhereAMemberIsReachedSaysNothing) {
  LedgerState state(rules(40, 4));
  state.change_members({{"a", 1, "host:1"}});
  state.commit(1, std::vector<Claim>{{1, 1}});
  EXPECT_EQ(state.last().parts[0].member.address, "");
}

TEST(LedgerState, WhoStaysKeepsItsLeasesWhateverItsRank) {
  LedgerState state = with_members(rules(40, 4), "a b");
  state.change_members(members("c b a"));
  EXPECT_EQ(text_of(state), "c 2:0-4 | b 1:0-4 | a 0:0-4");
  const auto once = state.encode();
  state.change_members(members("c b a"));
  EXPECT_EQ(state.encode(), once) << "doing so twice is doing so once";
}

TEST(LedgerState, AnEpochEndsForAllInTheSameStep) {
  LedgerState state = with_members(rules(8, 4, 2), "a b");
  state.commit(1, std::vector<Claim>{{4, 1}, {3, 1}});
  EXPECT_EQ(text_of(state), "a  | b 1:3-4") << "a sample cannot be shared";
  EXPECT_EQ(state.epoch(), 0U);
  state.commit(2, std::vector<Claim>{{0, 1}, {1, 1}});
  EXPECT_EQ(state.epoch(), 1U);
  EXPECT_EQ(state.committed(), 0U);
  EXPECT_EQ(text_of(state), "a 0:4-8 | b 1:4-8") << "positions go on counting";
  state.commit(3, std::vector<Claim>{{4, 1}, {4, 1}});
  EXPECT_TRUE(state.is_done());
  EXPECT_EQ(text_of(state), "a  | b ");
  state.commit(4, std::vector<Claim>{{0, 1}, {0, 1}});
  state.change_members(members("c"));
  EXPECT_TRUE(state.is_done());
  EXPECT_EQ(text_of(state), "c ");
}

struct Rest {
  const char* name;
  uint64_t partition_samples;
  std::vector<Claim> claims;
  const char* before;  // leases of a and b; c joins without any
  const char* after;
};

// 24 samples are all leased to a and b before c joins.
TEST(LedgerState, TheRestOfAnEpochIsSharedOut) {
  const Rest rests[] = {
      {"the last partition of who has the most",
       4,
       {{2, 3}, {1, 3}, {0, 1}},
       "a 0:0-4 2:0-4 4:0-4 | b 1:0-4 3:0-4 5:0-4 | c ",
       "a 0:2-4 2:0-4 4:0-4 | b 1:1-4 3:0-4 | c 5:0-4"},
      {"half of the only one",
       12,
       {{2, 1}, {1, 1}, {0, 1}},
       "a 0:0-12 | b 1:0-12 | c ",
       "a 0:2-12 | b 1:1-7 | c 1:7-12"},
      {"nothing that the next step uses up",
       12,
       {{6, 1}, {7, 1}, {0, 1}},
       "a 0:0-12 | b 1:0-12 | c ",
       "a 0:6-12 | b 1:7-12 | c "},
      {"all of who did not work",
       12,
       {{9, 1}, {0, 1}, {0, 1}},
       "a 0:0-12 | b 1:0-12 | c ",
       "a 0:9-12 | b  | c 1:0-12"},
      {"nothing for who wants nothing",
       12,
       {{2, 1}, {1, 1}, {0, 0}},
       "a 0:0-12 | b 1:0-12 | c ",
       "a 0:2-12 | b 1:1-12 | c "},
  };
  for (const Rest& rest : rests) {
    SCOPED_TRACE(rest.name);
    LedgerState state = with_members(rules(24, rest.partition_samples), "a b");
    state.commit(1, std::vector<Claim>{{0, 3}, {0, 3}});
    state.change_members(members("a b c"));
    EXPECT_EQ(text_of(state), rest.before);
    state.commit(2, rest.claims);
    EXPECT_EQ(text_of(state), rest.after);
  }
}

TEST(LedgerState, InOneOrderAStepIsCutAmongTheMembers) {
  LedgerState state = with_members(global_rules(20, 6), "a b");
  EXPECT_EQ(text_of(state), "a 0:0-3 | b 0:3-4 1:0-2");
  state.commit(1, std::vector<Claim>{{3, 1}, {3, 1}});
  EXPECT_EQ(text_of(state), "a 1:2-4 2:0-1 | b 2:1-4");
  state.change_members(members("b c d2"));
  EXPECT_EQ(text_of(state), "b 1:2-4 | c 2:0-2 | d 2:2-4") << "the same six";
  state.change_members(members("b c d2"));
  EXPECT_EQ(text_of(state), "b 1:2-4 | c 2:0-2 | d 2:2-4");
}

TEST(LedgerState, InOneOrderANewcomerHasNoShareOfItsFirstStep) {
  LedgerState state = with_members(global_rules(20, 6), "a b");
  state.change_members(members("a b c"), true);
  EXPECT_EQ(text_of(state), "a 0:0-3 | b 0:3-4 1:0-2 | c ");
  state.change_members(members("a b c"), true);
  EXPECT_EQ(text_of(state), "a 0:0-3 | b 0:3-4 1:0-2 | c ") << "the step is still to come";
  state.change_members(members("b c d"), true);
  EXPECT_EQ(text_of(state), "b 0:0-4 1:0-2 | c  | d ");
  state.commit(1, std::vector<Claim>{{6, 1}, {0, 1}, {0, 1}});
  EXPECT_EQ(text_of(state), "b 1:2-4 | c 2:0-2 | d 2:2-4");
  state.change_members(members("b c d"), true);
  EXPECT_EQ(text_of(state), "b 1:2-4 | c 2:0-2 | d 2:2-4") << "they are new no more";
}

TEST(LedgerState, InOneOrderWhatWasLeftOutComesFirst) {
  LedgerState state = with_members(global_rules(20, 6), "a b");
  state.commit(1, std::vector<Claim>{{1, 1}, {2, 1}});
  EXPECT_EQ(text_of(state), "a 0:1-3 1:1-2 | b 1:2-4 2:0-1");
}

TEST(LedgerState, InOneOrderTheLastStepOfAnEpochIsSmaller) {
  LedgerState state = with_members(global_rules(8, 6), "a b");
  state.commit(1, std::vector<Claim>{{3, 1}, {3, 1}});
  EXPECT_EQ(text_of(state), "a 1:2-4 | b ") << "as if it were a whole one";
  state.commit(2, std::vector<Claim>{{2, 1}, {0, 1}});
  EXPECT_EQ(state.epoch(), 1U);
  EXPECT_EQ(text_of(state), "a 0:4-7 | b 0:7-8 1:4-6");
}

TEST(LedgerState, InOneOrderMicroBatchesStayWhole) {
  LedgerState state = with_members(global_rules(40, 12, 4), "a b");
  EXPECT_EQ(text_of(state), "a 0:0-4 1:0-4 | b 2:0-4");
  state.change_members(members("a b c d"));
  EXPECT_EQ(text_of(state), "a 0:0-4 | b 1:0-4 | c 2:0-4 | d ");
}

TEST(LedgerState, InOneOrderTheNextStepsMayBeOfAnotherSize) {
  LedgerState state = with_members(global_rules(40, 6, 2), "a b");
  EXPECT_EQ(text_of(state), "a 0:0-4 | b 1:0-2");
  state.set_batch(9);
  EXPECT_EQ(state.batch(), 8U) << "whole micro-batches";
  state.commit(1, std::vector<Claim>{{4, 1}, {2, 1}});
  EXPECT_EQ(text_of(state), "a 1:2-4 2:0-2 | b 2:2-4 3:0-2") << "from where the order stood";
  EXPECT_EQ(state.shares(), (std::vector<uint64_t>{2, 2}));
  state.set_batch(1);
  state.change_members(members("a b c"));
  EXPECT_EQ(text_of(state), "a 1:2-4 | b  | c ") << "one at least; the step is cut anew";
  state.commit(2, std::vector<Claim>{{2, 1}, {0, 1}, {0, 1}});
  EXPECT_EQ(text_of(state), "a 2:0-2 | b  | c ");
  EXPECT_EQ(state.committed(), 8U);
}

// The sequence of samples, step by step, equals that of one member, whatever the members do.
TEST(LedgerState, InOneOrderTheSequenceDoesNotDependOnTheMembers) {
  LedgerRules global = global_rules(1000, 24);
  global.data = {.samples = 1000, .partition_samples = 7, .seed = 5, .shuffle = Shuffle::kSamples};
  const auto sequence = [&](const std::vector<std::string>& worlds) {
    LedgerState state(global);
    std::vector<std::vector<uint64_t>> steps;
    for (uint64_t step = 0; !state.is_done(); ++step) {
      state.change_members(members(worlds[step % worlds.size()]));
      std::vector<Claim> claims;
      for (size_t rank = 0; rank < state.members().size(); ++rank) {
        claims.push_back({state.held(rank), 1});
      }
      state.commit(step, claims);
      steps.emplace_back();
      for (const auto& part : state.last().parts) {
        global.data.add_indices(part.range, steps.back());
      }
    }
    return steps;
  };
  const auto alone = sequence({"a"});
  EXPECT_EQ(alone.size(), 2U * 42);
  EXPECT_EQ(sequence({"a b", "a b", "c b2 d e f", "b2 g", "h a2 b2 c"}), alone);
}

}  // namespace
}  // namespace ffdl::data
