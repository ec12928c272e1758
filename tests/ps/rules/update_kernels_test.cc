#include "ps/rules/update_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace ffdl::ps {
namespace {

constexpr uint64_t kCount = 1024;

struct alignas(64) Values {
  float at[kCount];
};

// The inputs and outputs of one block.
struct Block {
  Values gradient, weights, new_weights, state[2], new_state[2];

  explicit Block(uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (uint64_t i = 0; i < kCount; ++i) {
      gradient.at[i] = normal(random);
      weights.at[i] = normal(random);
      state[0].at[i] = normal(random);
      state[1].at[i] = std::abs(normal(random));  // as Adam's second moment, never negative
    }
  }
  UpdateBlock view() {
    return {.count = kCount,
            .gradient = gradient.at,
            .weights = weights.at,
            .new_weights = new_weights.at,
            .state = {state[0].at, state[1].at},
            .new_state = {new_state[0].at, new_state[1].at}};
  }
};

constexpr UpdateRuleKind kAllRules[] = {UpdateRuleKind::kSgd,      UpdateRuleKind::kMomentum,
                                        UpdateRuleKind::kAdam,     UpdateRuleKind::kAdamW,
                                        UpdateRuleKind::kNesterov, UpdateRuleKind::kAdagrad,
                                        UpdateRuleKind::kAverage};

UpdateStep step_of(uint64_t number) {
  return {.number = number, .learning_rate = 0.1F, .gradient_scale = 0.5F, .clip_value = 0.4F};
}

double seen_gradient(const UpdateStep& step, double gradient) {
  const double scaled = gradient * step.gradient_scale;
  return std::min(std::max(scaled, -double{step.clip_value}), double{step.clip_value});
}

TEST(UpdateKernels, SgdWithDecayAndClamp) {
  Block block(1);
  const UpdateRuleOptions rule{.weight_decay = 0.01F};
  const UpdateStep step = step_of(1);
  update_block(rule, step, block.view());
  for (uint64_t i = 0; i < kCount; ++i) {
    const double w = block.weights.at[i];
    const double g = seen_gradient(step, block.gradient.at[i]) + 0.01 * w;
    ASSERT_NEAR(block.new_weights.at[i], w - 0.1 * g, 1e-6) << i;
  }
}

TEST(UpdateKernels, MomentumKeepsItsVelocity) {
  Block block(2);
  const UpdateRuleOptions rule{.kind = UpdateRuleKind::kMomentum, .momentum = 0.9F};
  const UpdateStep step = step_of(3);
  update_block(rule, step, block.view());
  for (uint64_t i = 0; i < kCount; ++i) {
    const double v = 0.9 * block.state[0].at[i] + seen_gradient(step, block.gradient.at[i]);
    ASSERT_NEAR(block.new_state[0].at[i], v, 1e-6) << i;
    ASSERT_NEAR(block.new_weights.at[i], block.weights.at[i] - 0.1 * v, 1e-6) << i;
  }
}

TEST(UpdateKernels, NesterovLooksOneStepAhead) {
  Block block(5);
  const UpdateRuleOptions rule{
      .kind = UpdateRuleKind::kNesterov, .momentum = 0.9F, .weight_decay = 0.01F};
  update_block(rule, step_of(3), block.view());
  for (uint64_t i = 0; i < kCount; ++i) {
    const double w = block.weights.at[i];
    const double g = seen_gradient(step_of(3), block.gradient.at[i]) + 0.01 * w;
    const double v = 0.9 * block.state[0].at[i] + g;
    ASSERT_NEAR(block.new_state[0].at[i], v, 1e-6) << i;
    ASSERT_NEAR(block.new_weights.at[i], w - 0.1 * (g + 0.9 * v), 1e-6) << i;
  }
}

TEST(UpdateKernels, AdagradDividesByAllItsGradients) {
  Block block(6);
  std::swap(block.state[0], block.state[1]);  // as a sum of squares, never negative
  const UpdateRuleOptions rule{
      .kind = UpdateRuleKind::kAdagrad, .epsilon = 0.01F, .weight_decay = 0.02F};
  update_block(rule, step_of(3), block.view());
  for (uint64_t i = 0; i < kCount; ++i) {
    const double w = block.weights.at[i];
    const double g = seen_gradient(step_of(3), block.gradient.at[i]) + 0.02 * w;
    const double s = block.state[0].at[i] + g * g;
    ASSERT_NEAR(block.new_state[0].at[i], s, 1e-6) << i;
    ASSERT_NEAR(block.new_weights.at[i], w - 0.1 * g / (std::sqrt(s) + 0.01), 1e-6) << i;
  }
}

TEST(UpdateKernels, AverageSubtractsTheGradientAndNothingElse) {
  Block block(7);
  const UpdateRuleOptions rule{.kind = UpdateRuleKind::kAverage, .weight_decay = 0.5F};
  update_block(rule, {.learning_rate = 0.1F}, block.view());
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(block.new_weights.at[i], block.weights.at[i] - block.gradient.at[i]) << i;
  }
  const UpdateStep step = step_of(1);  // scaled and clamped like every gradient
  update_block(rule, step, block.view());
  for (uint64_t i = 0; i < kCount; ++i) {
    const double g = seen_gradient(step, block.gradient.at[i]);
    ASSERT_NEAR(block.new_weights.at[i], block.weights.at[i] - g, 1e-6) << i;
  }
}

TEST(UpdateKernels, AdamAndAdamWFollowTheirFormulas) {
  for (const auto kind : {UpdateRuleKind::kAdam, UpdateRuleKind::kAdamW}) {
    Block block(3);
    const UpdateRuleOptions rule{.kind = kind, .weight_decay = 0.02F};
    const UpdateStep step = step_of(7);
    update_block(rule, step, block.view());
    const bool decoupled = kind == UpdateRuleKind::kAdamW;
    for (uint64_t i = 0; i < kCount; ++i) {
      const double w = block.weights.at[i];
      const double g = seen_gradient(step, block.gradient.at[i]) + (decoupled ? 0 : 0.02 * w);
      const double m = 0.9 * block.state[0].at[i] + 0.1 * g;
      const double v = 0.999 * block.state[1].at[i] + 0.001 * g * g;
      const double corrected =
          (m / (1 - std::pow(0.9, 7))) / (std::sqrt(v / (1 - std::pow(0.999, 7))) + 1e-8);
      const double expected = w * (decoupled ? 1 - 0.1 * 0.02 : 1) - 0.1 * corrected;
      ASSERT_NEAR(block.new_weights.at[i], expected, 2e-5 * (1 + std::abs(expected))) << i;
      ASSERT_NEAR(block.new_state[0].at[i], m, 1e-6) << i;
      ASSERT_NEAR(block.new_state[1].at[i], v, 1e-6) << i;
    }
  }
}

// An element's new bits do not depend on its place in the block, nor on the block's length.
TEST(UpdateKernels, RoundingDoesNotDependOnThePlace) {
  for (const UpdateRuleKind kind : kAllRules) {
    Block whole(4);
    for (float& value : whole.state[0].at) value = std::abs(value);  // as Adagrad's sum is
    const UpdateRuleOptions rule{.kind = kind, .weight_decay = 0.003F};
    update_block(rule, step_of(5), whole.view());
    for (uint64_t shift = 1; shift <= 64; ++shift) {
      Block moved = whole;
      for (Values* values : {&moved.gradient, &moved.weights, &moved.state[0], &moved.state[1]}) {
        std::rotate(values->at, values->at + shift, values->at + kCount);
      }
      UpdateBlock view = moved.view();
      view.count = kCount - 64;
      update_block(rule, step_of(5), view);
      ASSERT_EQ(std::memcmp(moved.new_weights.at, whole.new_weights.at + shift,
                            (kCount - 64 - shift) * 4),
                0)
          << shift;
    }
  }
}

// A run has the bits of the block, in place, and leaves the data for recovery. The journal names
// the last step; its new values are in the shadow of its parity.
TEST(UpdateKernels, RunsGiveTheSameBitsAndAJournal) {
  for (const UpdateRuleKind kind : kAllRules) {
    Block expected(8);
    for (float& value : expected.state[0].at) value = std::abs(value);
    Block block = expected;
    const UpdateRuleOptions rule{.kind = kind, .weight_decay = 0.003F};
    update_block(rule, step_of(5), expected.view());
    const bool has_state = std::memcmp(expected.new_state[0].at, block.new_state[0].at,
                                       sizeof block.new_state[0].at) != 0;
    alignas(64) float shadows[2][3][kRunFloats] = {};
    std::atomic<uint64_t> journal = 0;
    JournalledRun run{.steps = kCount / kRunFloats - 1,  // the last step stays as it was
                      .first = 7,
                      .gradient = block.gradient.at,
                      .weights = block.weights.at,
                      .state = {block.state[0].at, block.state[1].at},
                      .journal = &journal,
                      .journal_word = uint64_t{5} << 56 | 9};
    for (size_t parity = 0; parity < 2; ++parity) {
      for (size_t plane = 0; plane < 3; ++plane) run.shadow[parity][plane] = shadows[parity][plane];
    }
    const Block before = block;
    update_run(rule, step_of(5), run);
    const uint64_t done = run.steps * kRunFloats;
    EXPECT_EQ(std::memcmp(block.weights.at, expected.new_weights.at, done * 4), 0);
    if (has_state) {
      EXPECT_EQ(std::memcmp(block.state[0].at, expected.new_state[0].at, done * 4), 0);
    }
    EXPECT_EQ(std::memcmp(block.weights.at + done, before.weights.at + done, kRunFloats * 4), 0);
    EXPECT_EQ(journal, (uint64_t{5} << 56) + ((run.first + run.steps) << 32) + 9);
    const float* last = shadows[(run.first + run.steps) & 1][0];
    EXPECT_EQ(std::memcmp(last, expected.new_weights.at + done - kRunFloats, kRunFloats * 4), 0);
  }
}

}  // namespace
}  // namespace ffdl::ps
