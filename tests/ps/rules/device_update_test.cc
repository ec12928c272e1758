#include "ps/rules/device_update.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "support/device_updates.h"
#include "support/rule_arrays.h"
#include "support/status_matchers.h"

namespace ffdl::ps {
namespace {

using testing::RuleBlock;

// Expects equal bits, or at most the difference that a separately rounded product makes.
void expect_same(const float* got, const float* expected, uint64_t count, bool exactly) {
  if (exactly) {
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(base::bits_of(got[i]), base::bits_of(expected[i])) << i << ": " << got[i];
    }
    return;
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))) continue;
    ASSERT_NEAR(got[i], expected[i], 1e-5F * (1 + std::abs(expected[i]))) << i;
  }
}

TEST(DeviceUpdate, GivesTheBitsOfTheKernelsAtEveryOddSize) {
  const bool exactly = testing::kernels_fuse();
  RecordProperty("fused_multiply_add", exactly ? "yes" : "no: near is enough");
  uint32_t seed = 0;
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const UpdateRuleKind kind : testing::kAllRules) {
      for (const uint64_t count : {0, 1, 3, 4, 5, 31, 63, 257, 1023, 1039}) {
        SCOPED_TRACE(::testing::Message() << to_string(kind) << " of " << count << " with "
                                          << to_string(type) << " gradients");
        const RuleBlock before(++seed, type);
        const UpdateStep step = testing::step_of(seed);
        const RuleBlock expected = before.updated(testing::rule_of(kind), step);
        RuleBlock block = before;
        const DeviceUpdate update{.count = count,
                                  .gradient_type = type,
                                  .gradient = block.gradient_as(type),
                                  .weights = block.weights,
                                  .state = {block.state[0], block.state[1]}};
        EXPECT_OK(check_update(testing::rule_of(kind), step, update));
        testing::run_all_threads(testing::rule_of(kind), step, update, 1 + seed % 70);
        expect_same(block.weights, expected.weights, count, exactly);
        // The memory behind the last element stays the same.
        EXPECT_EQ(std::memcmp(block.weights + count, before.weights + count,
                              (RuleBlock::kCount - count) * sizeof(float)),
                  0);
        for (int s = 0; s < 2; ++s) {
          const bool has = s < state_count(kind);
          expect_same(block.state[s], has ? expected.state[s] : before.state[s], count, exactly);
          EXPECT_EQ(std::memcmp(block.state[s] + count, before.state[s] + count,
                                (RuleBlock::kCount - count) * sizeof(float)),
                    0);
        }
      }
    }
  }
}

TEST(DeviceUpdate, StateCountsAreThoseOfTheRules) {
  for (const UpdateRuleKind kind : testing::kAllRules) {
    ASSERT_OK_AND_ASSIGN(const auto rule, make_update_rule({.kind = kind}));
    EXPECT_EQ(state_count(kind), rule->state_count()) << to_string(kind);
  }
}

TEST(DeviceUpdate, ClampsAsTheFormulaSays) {
  const RuleNumbers numbers{.scale = 2, .limit = 3};
  EXPECT_EQ(seen_gradient(numbers, 1), 2);
  EXPECT_EQ(seen_gradient(numbers, 2), 3);
  EXPECT_EQ(seen_gradient(numbers, -2), -3);
  EXPECT_EQ(seen_gradient({.scale = 2}, -2), -4);
}

TEST(DeviceUpdate, RefusesWhatAKernelCannotDo) {
  alignas(64) float values[32] = {};
  const UpdateRuleOptions adam{.kind = UpdateRuleKind::kAdam};
  DeviceUpdate good{.count = 8, .gradient = values, .weights = values + 8};
  good.state[0] = values + 16;
  good.state[1] = values + 24;
  EXPECT_OK(check_update(adam, {}, good));
  DeviceUpdate bad = good;
  bad.gradient_type = DType::kFloat64;
  EXPECT_FAILS(check_update(adam, {}, bad), StatusCode::kInvalidArgument, "gradients are float64");
  bad = good;
  bad.gradient = values + 1;
  EXPECT_FAILS(check_update(adam, {}, bad), StatusCode::kInvalidArgument,
               "'gradient' begins 4 bytes after a multiple of 16");
  bad = good;
  bad.weights = nullptr;
  EXPECT_FAILS(check_update(adam, {}, bad), StatusCode::kInvalidArgument, "'weights' is null");
  bad.count = 0;
  EXPECT_OK(check_update(adam, {}, bad));
  bad = good;
  bad.state[1] = nullptr;
  EXPECT_FAILS(check_update(adam, {}, bad), StatusCode::kInvalidArgument, "'state' is null");
  EXPECT_OK(check_update({.kind = UpdateRuleKind::kMomentum}, {}, bad));
  EXPECT_FAILS(check_update({.kind = static_cast<UpdateRuleKind>(99)}, {}, good),
               StatusCode::kInvalidArgument, "rule 99 is unknown");
  EXPECT_FAILS(check_update(adam, {.number = 0}, good), StatusCode::kInvalidArgument,
               "the first update has 1");
}

}  // namespace
}  // namespace ffdl::ps
