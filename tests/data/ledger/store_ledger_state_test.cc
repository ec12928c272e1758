#include "data/ledger/store_ledger_state.h"

#include <map>
#include <random>

#include "data/ledger_text.h"
#include "support/status_matchers.h"

namespace ffdl::data {
namespace {

using testing::text_of;

LedgerRules stored_rules(uint64_t samples, uint64_t partition_samples, uint64_t epochs = 1) {
  LedgerRules rules;
  rules.data.samples = samples;
  rules.data.partition_samples = partition_samples;
  rules.data.shuffle = Shuffle::kNone;
  rules.epochs = epochs;
  return rules;
}

StoreLedgerState with_workers(const LedgerRules& rules, const std::string& ids) {
  StoreLedgerState ledger(rules);
  for (const char id : ids) EXPECT_TRUE(ledger.join(std::string(1, id)));
  return ledger;
}

TEST(StoreLedgerState, OneCommitsAndTheOthersStayAsTheyWere) {
  StoreLedgerState ledger = with_workers(stored_rules(40, 4), "ab");
  EXPECT_EQ(text_of(ledger.state()), "a 0:0-4 | b 1:0-4");
  ledger.take_turn(0, {0, 3, 2});
  EXPECT_EQ(text_of(ledger.state()), "a 0:0-4 2:0-4 | b 1:0-4");
  EXPECT_EQ(ledger.under_way(0), 3U);
  EXPECT_EQ(ledger.state().last().step, 0U) << "it committed nothing";
  ledger.take_turn(0, {3, 3, 2});
  EXPECT_EQ(text_of(ledger.state()), "a 0:3-4 2:0-4 | b 1:0-4");
  EXPECT_EQ(ledger.state().last().step, 1U);
  ASSERT_EQ(ledger.state().last().parts.size(), 1U);
  EXPECT_EQ(ledger.state().last().parts[0].member, (Member{"a", 1}));
  EXPECT_EQ(ledger.turns(0), 2U);
  EXPECT_EQ(ledger.turns(1), 0U);
}

TEST(StoreLedgerState, WhatADeadOneWorkedOnIsCountedAndItsRestGoesBack) {
  StoreLedgerState ledger = with_workers(stored_rules(12, 4), "ab");
  ledger.take_turn(1, {0, 3, 1});
  ledger.take_turn(1, {3, 3, 1});
  EXPECT_EQ(ledger.under_way(1), 1U) << "all that it holds";
  ledger.leave({"b", 2}, /*left_alone=*/false);
  EXPECT_EQ(ledger.repeated(), 1U);
  EXPECT_EQ(text_of(ledger.state()), "a 0:0-4");
  ledger.take_turn(0, {0, 4, 2});
  EXPECT_EQ(text_of(ledger.state()), "a 0:0-4 1:3-4") << "what was returned comes first";
  ledger.leave({"a", 1}, /*left_alone=*/true);
  EXPECT_EQ(ledger.repeated(), 1U) << "it said that it used none";
  ledger.leave({"a", 1}, /*left_alone=*/false);
  EXPECT_EQ(ledger.repeated(), 1U) << "it is gone";
}

TEST(StoreLedgerState, AtTheEndOfAnEpochNobodyIsGivenWhatAnotherWorksOn) {
  struct Row {
    uint64_t under_way;
    const char* shared;
  };
  for (const Row& row :
       {Row{0, "a  | b 0:0-16"}, Row{2, "a 0:0-9 | b 0:9-16"}, Row{7, "a 0:0-12 | b 0:12-16"},
        Row{9, "a 0:0-16 | b "}, Row{16, "a 0:0-16 | b "}}) {
    StoreLedgerState ledger = with_workers(stored_rules(16, 16), "ab");
    if (row.under_way > 0) ledger.take_turn(0, {0, row.under_way, 1});
    ledger.take_turn(1, {0, 4, 1});
    EXPECT_EQ(text_of(ledger.state()), row.shared) << row.under_way;
  }
}

TEST(StoreLedgerState, WhoHasMostThatIsFreeGives) {
  StoreLedgerState ledger = with_workers(stored_rules(18, 6), "abc");
  ledger.take_turn(0, {0, 6, 1});  // all of it
  ledger.take_turn(1, {0, 2, 1});
  ledger.take_turn(1, {2, 1, 1});
  ledger.take_turn(2, {0, 6, 1});
  ledger.take_turn(2, {6, 6, 1});
  EXPECT_EQ(text_of(ledger.state()), "a 0:0-6 | b 1:2-5 | c 1:5-6");
}

TEST(StoreLedgerState, AnEpochBeginsForWhoEndsTheLast) {
  StoreLedgerState ledger = with_workers(stored_rules(8, 4, 2), "ab");
  ledger.take_turn(0, {0, 4, 1});
  ledger.take_turn(1, {0, 4, 1});
  ledger.take_turn(0, {4, 4, 1});
  EXPECT_EQ(text_of(ledger.state()), "a  | b 1:0-4");
  EXPECT_EQ(ledger.state().epoch(), 0U);
  ledger.take_turn(1, {4, 4, 1});
  EXPECT_EQ(ledger.state().epoch(), 1U);
  EXPECT_EQ(text_of(ledger.state()), "a  | b 0:4-8");
  ledger.take_turn(0, {0, 4, 1});
  EXPECT_EQ(text_of(ledger.state()), "a 1:4-8 | b 0:4-8");
}

TEST(StoreLedgerState, ANewLifeEndsTheOneBefore) {
  StoreLedgerState ledger = with_workers(stored_rules(12, 4), "ab");
  ledger.take_turn(0, {0, 2, 1});
  const auto again = ledger.join("a");
  EXPECT_EQ(again, (Member{"a", 3}));
  EXPECT_EQ(ledger.repeated(), 2U);
  EXPECT_FALSE(ledger.rank_of({"a", 1}));
  EXPECT_EQ(text_of(ledger.state()), "b 1:0-4 | a 0:0-4");
}

TEST(StoreLedgerState, ALineageBeginsWithoutWorkersAndWithNewIncarnations) {
  StoreLedgerState ledger = with_workers(stored_rules(12, 4), "ab");
  ledger.take_turn(0, {0, 2, 1});
  ledger.take_turn(0, {2, 2, 1});
  auto saved = StoreLedgerState::decode(ledger.encode(), stored_rules(12, 4));
  ASSERT_OK(saved);
  EXPECT_TRUE(ledger.join("c"));
  saved->begin_lineage({.number = 2, .origin = 7}, &ledger);
  EXPECT_EQ(saved->lineage(), (Lineage{2, 7}));
  EXPECT_EQ(text_of(saved->state()), "");
  EXPECT_EQ(saved->state().committed(), 2U);
  EXPECT_EQ(saved->repeated(), 0U) << "they are taken back, not repeated";
  EXPECT_EQ(saved->join("a"), (Member{"a", 4}));
  EXPECT_EQ(text_of(saved->state()), "a 0:2-4");
}

TEST(StoreLedgerState, IsOfAsManyWorkersAsAWorld) {
  StoreLedgerState ledger(stored_rules(12, 4));
  for (int i = 0; i < 256; ++i) EXPECT_TRUE(ledger.join(std::to_string(i)));
  EXPECT_FALSE(ledger.join("one more"));
  EXPECT_TRUE(ledger.join("7")) << "in the place of the life before";
}

TEST(StoreLedgerState, GoesThroughBytes) {
  StoreLedgerState ledger = with_workers(stored_rules(40, 4), "ab");
  ledger.take_turn(1, {0, 2, 2});
  ledger.take_turn(1, {2, 2, 2});
  const std::string bytes = ledger.encode();
  ASSERT_OK_AND_ASSIGN(const StoreLedgerState again,
                       StoreLedgerState::decode(bytes, stored_rules(40, 4)));
  EXPECT_EQ(again.encode(), bytes);
  EXPECT_EQ(again.under_way(1), 2U);
  EXPECT_FAILS(StoreLedgerState::decode(bytes, stored_rules(41, 4)), StatusCode::kInvalidArgument,
               "samples is 40, here 41");
  EXPECT_FAILS(StoreLedgerState::decode("", stored_rules(40, 4)), StatusCode::kCorrupt,
               "its first bytes are wrong");
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(StoreLedgerState::decode(damaged, stored_rules(40, 4)).ok()) << i;
    EXPECT_FALSE(StoreLedgerState::decode(bytes.substr(0, i), stored_rules(40, 4)).ok()) << i;
  }
}

// Each sample is committed once per epoch, whatever workers do in whatever order.
TEST(StoreLedgerState, EachSampleIsCommittedOncePerEpoch) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::minstd_rand random(seed);
    const LedgerRules rules = stored_rules(5 + seed % 40, 1 + seed % 9, 2);
    StoreLedgerState ledger(rules);
    std::map<std::pair<uint32_t, uint64_t>, int> commits;
    for (int events = 0; !ledger.state().is_done(); ++events) {
      ASSERT_LT(events, 10'000) << "it does not end, seed " << seed;
      auto read = StoreLedgerState::decode(ledger.encode(), rules);
      ASSERT_OK(read);
      ledger = std::move(*read);
      const size_t workers = ledger.state().members().size();
      const uint64_t what = random() % 12;
      if (workers == 0 || what == 0) {
        EXPECT_TRUE(ledger.join(std::string(1, static_cast<char>('a' + random() % 5))));
      } else if (what == 1) {
        ledger.leave(Member(ledger.state().members()[random() % workers]), random() % 2 == 0);
      } else {
        const size_t rank = random() % workers;
        const uint64_t done = random() % (ledger.under_way(rank) + 1);
        const uint64_t before = ledger.state().last().step;
        ledger.take_turn(rank, {done, random() % 6, random() % 4});
        ASSERT_EQ(ledger.state().last().step, before + (done > 0 ? 1 : 0));
        for (const auto& part : ledger.state().last().parts) {
          for (uint64_t at = part.range.begin; at < part.range.end; ++at) {
            ++commits[{part.range.partition, at}];
          }
        }
      }
    }
    EXPECT_EQ(commits.size(), 2 * rules.data.samples);
    for (const auto& [at, times] : commits) EXPECT_EQ(times, 1) << seed;
  }
}

}  // namespace
}  // namespace ffdl::data
