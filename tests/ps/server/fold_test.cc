#include "ps/server/fold.h"

#include <gtest/gtest.h>

#include "ps/test_region.h"
#include "support/status_matchers.h"

namespace ffdl::ps {
namespace {

// Kills the fold at the n-th step, counted over all folds that share the countdown.
template <bool kJournalOn>
struct KillHooks {
  static constexpr bool kJournal = kJournalOn;
  static constexpr bool kMayDie = true;
  int* steps_left;
  bool alive(FoldStep) { return (*steps_left)-- != 0; }
};
constexpr int kNever = 1 << 30;

std::unique_ptr<UpdateRule> rule_of(UpdateRuleKind kind) {
  return make_update_rule({.kind = kind, .learning_rate = 0.5F}).value();
}

enum class Form { kDense, kSparse, kMixed };

using Touched = std::vector<TouchedRange>;
// Rows of odd sizes at odd places, in and across blocks and shards.
const Touched kSomeRows = {{3, 20}, {40, 57}, {300, 330}, {505, 529}};
const Touched kOtherRows = {{0, 5}, {48, 64}, {500, 520}};

// Publishes one gradient of each learner. Two gradients of learner 0 cannot be published at once.
void publish_all(TestRegion& region, Form form) {
  const auto touched = [&](const Touched& rows) {
    return form == Form::kDense ? std::nullopt : std::optional(rows);
  };
  region.publish(0,
                 {{.partition = 0, .begin = 0, .end = 10}, {.partition = 1, .begin = 0, .end = 3}},
                 1, touched(kSomeRows));
  region.publish(1, {{.partition = 2, .begin = 0, .end = 5}}, 1,
                 form == Form::kMixed ? std::nullopt : touched(kOtherRows));
  region.publish(2, {{.partition = 1, .begin = 3, .end = 9}}, 0);  // a skipped mini-batch
}

// Returns the learners whose next gradient shard k may fold.
std::vector<int> published(const TestRegion& region, int k) {
  std::vector<int> there;
  for (int l = 0; l < region->learners_max(); ++l) {
    if (region->folded(k, l) < region->learner(l).pub) there.push_back(l);
  }
  return there;
}

// Runs one server: recovers, then folds all that is published. Returns false if it was killed on
// the way.
template <bool kJournal>
bool serve(const TestRegion& region, const UpdateRule& rule, int* steps_left) {
  using Fold = ShardFold<KillHooks<kJournal>>;
  const bool bulk = region->config().synchrony == Synchrony::kBulk;
  for (int k = 0; k < region->shards(); ++k) {
    Fold fold(*region, rule, k, {steps_left});
    if (!fold.recover().ok()) return false;
    if (bulk) {
      while (region->shard(k).round_folded < region->round().number) {
        if (!fold.fold_round().ok()) return false;
      }
      continue;
    }
    if (region->folds_batches()) {
      for (std::vector<int> there; !(there = published(region, k)).empty();) {
        if (!fold.fold_batch(there).ok()) return false;
      }
      continue;
    }
    for (int l = 0; l < region->learners_max(); ++l) {
      while (region->folded(k, l) < region->learner(l).pub) {
        if (!fold.fold(l).ok()) return false;
      }
    }
  }
  return true;
}

Config config_for(Synchrony synchrony, uint32_t shards, DType type = DType::kFloat32) {
  Config config = TestRegion::small_config(shards, 1);
  config.parameters = kBlockFloats + 17;  // few steps: the kills of both servers are multiplied
  config.synchrony = synchrony;
  config.gradient_type = type;
  return config;
}

void prepare(TestRegion& region, Form form = Form::kDense) {
  publish_all(region, form);
  if (region->config().synchrony != Synchrony::kBulk) return;
  for (int l = 0; l < region->learners_max(); ++l) region->round_sequence(1, l) = 1;
  region->round().number = 1;
}

std::vector<uint64_t> undisturbed(const Config& config, const UpdateRule& rule,
                                  Form form = Form::kDense) {
  TestRegion region(config);
  prepare(region, form);
  int never = kNever;
  EXPECT_TRUE(serve<true>(region, rule, &never));
  return region.contents();
}

class FoldCrash : public ::testing::TestWithParam<
                      std::tuple<Synchrony, uint32_t, Form, DType, UpdateRuleKind>> {};

// Kills the server at every step, and its successor at every third step. The first step of the
// successor's kills changes each time.
TEST_P(FoldCrash, PairsOfKillsLeaveEachGradientFoldedOnce) {
  const auto [synchrony, shards, form, type, kind] = GetParam();
  const auto rule = rule_of(kind);
  Config config = config_for(synchrony, shards, type);
  config.state_count = static_cast<uint32_t>(rule->state_count());
  const std::vector<uint64_t> expected = undisturbed(config, *rule, form);
  bool first_survived = false;
  int crashes = 0;
  for (int first = 0; !first_survived; ++first) {
    bool second_survived = false;
    for (int second = first % 3; !second_survived && !first_survived; second += 3) {
      TestRegion region(config);
      prepare(region, form);
      int steps = first;
      first_survived = serve<true>(region, *rule, &steps);
      steps = second;
      second_survived = first_survived || serve<true>(region, *rule, &steps);
      int never = kNever;
      ASSERT_TRUE(serve<true>(region, *rule, &never));
      ASSERT_EQ(region.contents(), expected)
          << "killed at step " << first << ", then at " << second;
      ++crashes;
    }
  }
  EXPECT_GT(crashes, 30);
}

// The check above would notice a lost journal: without it some kill makes other weights.
TEST_P(FoldCrash, WithoutTheJournalTheCheckFails) {
  const auto [synchrony, shards, form, type, kind] = GetParam();
  const auto rule = rule_of(kind);
  Config config = config_for(synchrony, shards, type);
  config.state_count = static_cast<uint32_t>(rule->state_count());
  const std::vector<uint64_t> expected = undisturbed(config, *rule, form);
  bool seen = false;
  bool survived = false;
  for (int first = 0; !survived && !seen; ++first) {
    TestRegion region(config);
    prepare(region, form);
    int steps = first;
    survived = serve<false>(region, *rule, &steps);
    int never = kNever;
    ASSERT_TRUE(serve<false>(region, *rule, &never));
    seen = region.contents() != expected;
  }
  EXPECT_TRUE(seen);
}

INSTANTIATE_TEST_SUITE_P(Modes, FoldCrash,
                         ::testing::Combine(::testing::Values(Synchrony::kAsync, Synchrony::kBulk),
                                            ::testing::Values(1U, 2U),
                                            ::testing::Values(Form::kDense, Form::kSparse,
                                                              Form::kMixed),
                                            ::testing::Values(DType::kFloat32),
                                            ::testing::Values(UpdateRuleKind::kMomentum)));
INSTANTIATE_TEST_SUITE_P(SixteenBits, FoldCrash,
                         ::testing::Combine(::testing::Values(Synchrony::kBulk),
                                            ::testing::Values(2U), ::testing::Values(Form::kMixed),
                                            ::testing::Values(DType::kBFloat16),
                                            ::testing::Values(UpdateRuleKind::kMomentum)));
INSTANTIATE_TEST_SUITE_P(Rules, FoldCrash,
                         ::testing::Combine(::testing::Values(Synchrony::kAsync, Synchrony::kBulk),
                                            ::testing::Values(2U),
                                            ::testing::Values(Form::kDense, Form::kSparse),
                                            ::testing::Values(DType::kFloat32),
                                            ::testing::Values(UpdateRuleKind::kNesterov,
                                                              UpdateRuleKind::kAdagrad,
                                                              UpdateRuleKind::kAverage)));

class BatchCrash : public ::testing::TestWithParam<std::tuple<uint32_t, DType, UpdateRuleKind>> {
 protected:
  // Folds two batches one after the other. The second has fewer members.
  template <bool kJournal>
  static bool serve_two(TestRegion& region, const UpdateRule& rule, int* steps_left) {
    if (region->version() < 3 && !serve<kJournal>(region, rule, steps_left)) return false;
    if (region->learner(1).pub == 1) {
      region.publish(1, {{.partition = 2, .begin = 5, .end = 7}});
      region.publish(2, {{.partition = 1, .begin = 9, .end = 11}}, 2);
    }
    return serve<kJournal>(region, rule, steps_left);
  }
};

// A batch equals its gradients one by one, after a kill at any place.
TEST_P(BatchCrash, PairsOfKillsLeaveEachGradientFoldedOnce) {
  const auto [shards, type, kind] = GetParam();
  const auto rule = rule_of(kind);
  Config config = config_for(Synchrony::kAsync, shards, type);
  config.state_count = static_cast<uint32_t>(rule->state_count());
  int never = kNever;
  TestRegion one_by_one(config);
  prepare(one_by_one);
  ASSERT_TRUE(serve_two<true>(one_by_one, *rule, &never));
  const std::vector<uint64_t> expected = one_by_one.contents();

  config.device_plus_one = 1;
  bool first_survived = false;
  int crashes = 0;
  for (int first = 0; !first_survived; ++first) {
    bool second_survived = false;
    for (int second = first % 3; !second_survived && !first_survived; second += 3) {
      TestRegion region(config);
      prepare(region);
      int steps = first;
      first_survived = serve_two<true>(region, *rule, &steps);
      steps = second;
      second_survived = first_survived || serve_two<true>(region, *rule, &steps);
      never = kNever;
      ASSERT_TRUE(serve_two<true>(region, *rule, &never));
      ASSERT_EQ(region.contents(), expected)
          << "killed at step " << first << ", then at " << second;
      ++crashes;
    }
  }
  EXPECT_GT(crashes, 30);
}

INSTANTIATE_TEST_SUITE_P(Rules, BatchCrash,
                         ::testing::Combine(::testing::Values(1U, 2U),
                                            ::testing::Values(DType::kFloat32, DType::kBFloat16),
                                            ::testing::Values(UpdateRuleKind::kMomentum,
                                                              UpdateRuleKind::kAdam)));

// A gradient that is published while no server lives belongs to none of the earlier batches, even
// if a successor finds one begun.
TEST(Fold, WhatComesBetweenTwoServersIsInALaterBatch) {
  Config config = config_for(Synchrony::kAsync, 2);
  config.state_count = 0;  // plain descent with whole numbers: the order does not matter
  config.device_plus_one = 1;
  const auto rule = make_update_rule({.learning_rate = 0.5F}).value();
  std::vector<uint64_t> expected;
  bool survived = false;
  int steps = -1;  // not killed
  for (; steps < 1 || !survived; ++steps) {
    TestRegion region(config);
    region.publish(0, {{.partition = 0, .begin = 0, .end = 10}});
    region.publish(2, {{.partition = 2, .begin = 0, .end = 5}});
    int left = steps < 0 ? kNever : steps;
    survived = serve<true>(region, *rule, &left);
    region.publish(1, {{.partition = 1, .begin = 0, .end = 3}});
    int never = kNever;
    ASSERT_TRUE(serve<true>(region, *rule, &never));
    if (steps < 0) expected = region.contents();
    ASSERT_EQ(region.contents(), expected) << "killed at step " << steps;
  }
  EXPECT_GT(steps, 10);
}

// Only touched elements change, weight and state, at any place. The arithmetic is that of the dense
// fold.
TEST(Fold, SparseGradientsMoveOnlyWhatTheyTouch) {
  for (const uint32_t shards : {1U, 2U}) {
    for (const auto type : {DType::kFloat32, DType::kFloat16}) {
      TestRegion region(config_for(Synchrony::kAsync, shards, type));
      const auto rule = rule_of(UpdateRuleKind::kMomentum);
      int never = kNever;
      region.publish(0, {});  // so that all velocities move
      ASSERT_TRUE(serve<true>(region, *rule, &never));
      const uint64_t parameters = region->config().parameters;
      const std::vector<float> before(region->weights(), region->weights() + parameters);
      const std::vector<float> velocity(region->state(0), region->state(0) + parameters);
      region.publish(1, {}, 1, kSomeRows);
      ASSERT_TRUE(serve<true>(region, *rule, &never));
      for (uint64_t i = 0; i < parameters; ++i) {
        const bool touched = std::any_of(kSomeRows.begin(), kSomeRows.end(), [&](const auto& row) {
          return i >= row.begin && i < row.end;
        });
        const float moved =
            touched ? 0.9F * velocity[i] + TestRegion::element(1, 1, i) : velocity[i];
        ASSERT_FLOAT_EQ(region->state(0)[i], moved) << i;
        ASSERT_FLOAT_EQ(region->weights()[i], touched ? before[i] - 0.5F * moved : before[i]) << i;
      }
    }
  }
}

// A round of sparse gradients applies their mean. An untouched element of a member counts as zero.
TEST(Fold, RoundOfSparseGradientsIsTheirMean) {
  Config config = config_for(Synchrony::kBulk, 2);
  config.state_count = 0;
  TestRegion region(config);
  prepare(region, Form::kSparse);
  const auto rule = make_update_rule({.learning_rate = 0.5F}).value();
  int never = kNever;
  ASSERT_TRUE(serve<true>(region, *rule, &never));
  const auto part = [](const Touched& rows, int l, uint64_t i) {
    const bool in = std::any_of(rows.begin(), rows.end(),
                                [&](const auto& row) { return i >= row.begin && i < row.end; });
    return in ? TestRegion::element(l, 1, i) : 0.0F;
  };
  for (uint64_t i = 0; i < config.parameters; ++i) {
    const float mean = (part(kSomeRows, 0, i) + part(kOtherRows, 1, i)) / 2;
    ASSERT_EQ(region->weights()[i], -0.5F * mean) << i;
  }
}

TEST(Fold, SparseGradientThatTouchesNothingIsStillFolded) {
  TestRegion region(TestRegion::small_config(2, 1));
  const auto rule = rule_of(UpdateRuleKind::kMomentum);
  region.publish(0, {{.partition = 0, .begin = 0, .end = 2}}, 1, Touched{});
  int never = kNever;
  ASSERT_TRUE(serve<true>(region, *rule, &never));
  EXPECT_EQ(region->version(), 1U);
  EXPECT_EQ(region->ledger(Region::partition_word(0, kCommitted)), 2U);
  EXPECT_EQ(region->weights()[0], 0.0F);
}

TEST(Fold, SgdSubtractsWhatWasPublished) {
  TestRegion region(TestRegion::small_config(2, 0));
  const auto rule = make_update_rule({.learning_rate = 0.5F}).value();
  region.publish(0, {});
  for (int k = 0; k < 2; ++k) {
    ShardFold<> fold(*region, *rule, k);
    ASSERT_OK(fold.fold(0));
    EXPECT_EQ(fold.version(), 1U);
  }
  for (uint64_t i = 0; i < region->config().parameters; ++i) {
    ASSERT_EQ(region->weights()[i], -0.5F * region->gradient(0, 1).floats()[i]) << i;
  }
}

TEST(Fold, RoundIsOneUpdateWithTheMeanOfItsMembers) {
  Config config = config_for(Synchrony::kBulk, 1);
  config.state_count = 0;
  TestRegion region(config);
  prepare(region);  // learner 2 is a member without a gradient
  const auto rule = make_update_rule({.learning_rate = 0.5F}).value();
  int never = kNever;
  ASSERT_TRUE(serve<true>(region, *rule, &never));
  for (uint64_t i = 0; i < region->config().parameters; ++i) {
    const float mean =
        (region->gradient(0, 1).floats()[i] + region->gradient(1, 1).floats()[i]) / 2;
    ASSERT_EQ(region->weights()[i], -0.5F * mean) << i;
  }
  EXPECT_EQ(region->folded(0, 2), 1U);
}

TEST(Fold, LedgerCountsSamplesRepeatsAndGaps) {
  TestRegion region(TestRegion::small_config(1, 0));
  const auto rule = make_update_rule({}).value();
  ShardFold<> fold(*region, *rule, 0);
  region.publish(0, {{.partition = 1, .begin = 0, .end = 10}});
  ASSERT_OK(fold.fold(0));
  region.publish(
      0, {{.partition = 1, .begin = 8, .end = 12}, {.partition = 1, .begin = 15, .end = 20}});
  ASSERT_OK(fold.fold(0));
  const auto word = [&](PartitionWord which) {
    return region->ledger(Region::partition_word(1, which)).load();
  };
  EXPECT_EQ(word(kCommitted), 20U);
  EXPECT_EQ(word(kSamples), 19U);
  EXPECT_EQ(word(kRepeated), 2U);
  EXPECT_EQ(word(kMissing), 3U);
  EXPECT_EQ(region->ledger(region->slot_word(0, kMiniBatches)), 2U);
}

TEST(Fold, StalenessIsCountedInPowersOfTwo) {
  TestRegion region(TestRegion::small_config(1, 0));
  const auto rule = make_update_rule({}).value();
  ShardFold<> fold(*region, *rule, 0);
  for (int i = 0; i < 6; ++i) {  // all computed from version 0
    region.publish(0, {});
    ASSERT_OK(fold.fold(0));
  }
  const uint64_t expected[] = {1, 1, 2, 2};  // staleness 0 | 1 | 2 3 | 4 5
  for (uint64_t bucket = 0; bucket < 4; ++bucket) {
    EXPECT_EQ(region->ledger(region->staleness_word(bucket)), expected[bucket]) << bucket;
  }
}

TEST(Fold, ChangedRecordIsCorrupt) {
  TestRegion region(TestRegion::small_config(1, 0));
  const auto rule = make_update_rule({}).value();
  ShardFold<> fold(*region, *rule, 0);
  region.publish(0, {{.partition = 0, .begin = 0, .end = 1}});
  region->ranges(0, 1)[0].end = 2;
  EXPECT_FAILS(fold.fold(0), StatusCode::kCorrupt, "checksum");
  region.publish(1, {}, 1, kSomeRows);
  region->touched(1, 1)[2].end = 9'000'000;
  EXPECT_FAILS(fold.fold(1), StatusCode::kCorrupt, "checksum");
}

TEST(JournalWord, PacksItsThreeParts) {
  const JournalWord word{.learner = 254, .block_plus_one = 0xabcdef, .sequence_low = 0xffffffff};
  const JournalWord back = JournalWord::unpack(word.pack());
  EXPECT_EQ(back.learner, 254);
  EXPECT_EQ(back.block_plus_one, 0xabcdefU);
  EXPECT_EQ(back.sequence_low, 0xffffffffU);
}

}  // namespace
}  // namespace ffdl::ps
