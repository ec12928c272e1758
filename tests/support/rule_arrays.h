#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "base/half_kernels.h"
#include "ffdl/ps/update_rule.h"
#include "ffdl/types.h"
#include "ps/rules/update_kernels.h"

// Holds the arrays of one update, and computes the result of the processor's kernels.
namespace ffdl::testing {

inline constexpr UpdateRuleKind kAllRules[] = {UpdateRuleKind::kSgd,      UpdateRuleKind::kMomentum,
                                               UpdateRuleKind::kAdam,     UpdateRuleKind::kAdamW,
                                               UpdateRuleKind::kNesterov, UpdateRuleKind::kAdagrad,
                                               UpdateRuleKind::kAverage};

struct RuleBlock {
  static constexpr uint64_t kCount = 1040;  // whole lines, as the processor's kernels need
  alignas(64) float gradient[kCount];
  alignas(64) uint16_t half_gradient[kCount];
  alignas(64) float weights[kCount];
  alignas(64) float state[2][kCount];

  RuleBlock(uint32_t seed, DType gradient_type) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (uint64_t i = 0; i < kCount; ++i) {
      gradient[i] = normal(random);
      weights[i] = normal(random);
      state[0][i] = std::abs(normal(random));  // as Adagrad's sum, never negative
      state[1][i] = std::abs(normal(random));  // as Adam's second moment, never negative
    }
    gradient[3] = INFINITY;
    gradient[5] = -0.0F;
    if (!base::is_half(gradient_type)) return;
    base::narrow(gradient_type, gradient, half_gradient, kCount);
    base::widen(gradient_type, half_gradient, gradient, kCount);
  }

  const void* gradient_as(DType type) const {
    if (base::is_half(type)) return half_gradient;
    return gradient;
  }

  RuleBlock updated(const UpdateRuleOptions& rule, const UpdateStep& step) const {
    RuleBlock result = *this;
    ps::update_block(rule, step,
                     {.count = kCount,
                      .gradient = gradient,
                      .weights = weights,
                      .new_weights = result.weights,
                      .state = {state[0], state[1]},
                      .new_state = {result.state[0], result.state[1]}});
    return result;
  }
};

// Returns numbers for which no product is exact. Every other step has a clamp.
inline UpdateRuleOptions rule_of(UpdateRuleKind kind) {
  return {.kind = kind, .momentum = 0.87F, .weight_decay = 0.003F};
}
inline UpdateStep step_of(uint64_t number) {
  return {.number = number,
          .learning_rate = 0.013F,
          .gradient_scale = 0.37F,
          .clip_value = number % 2 == 0 ? 0.4F : 0.0F};
}

// Returns true if the processor's kernels have fused multiply-add. The square of 1 + 2^-12 has a
// last bit of 2^-24, which a separately rounded product loses.
inline bool kernels_fuse() {
  RuleBlock block(1, DType::kFloat32);
  block.weights[0] = 1 + 0x1p-12F;
  block.gradient[0] = -(1 + 0x1p-11F);
  block.state[0][0] = 0;
  const UpdateRuleOptions rule{.kind = UpdateRuleKind::kMomentum, .weight_decay = 1 + 0x1p-12F};
  return block.updated(rule, {.learning_rate = 1}).state[0][0] == 0x1p-24F;
}

}  // namespace ffdl::testing
