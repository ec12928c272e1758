#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "base/half_kernels.h"
#include "ffdl/types.h"
#include "ffdl/update_rule.h"
#include "ps/update_kernels.h"

// The arrays of one update, and what the kernels of the processor make of them.
namespace ffdl::testing {

inline constexpr UpdateRuleKind kAllRules[] = {UpdateRuleKind::kSgd,      UpdateRuleKind::kMomentum,
                                               UpdateRuleKind::kAdam,     UpdateRuleKind::kAdamW,
                                               UpdateRuleKind::kNesterov, UpdateRuleKind::kAdagrad,
                                               UpdateRuleKind::kAverage};

struct RuleBlock {
  static constexpr uint64_t kCount = 1040;  // what kernels of the processor take: whole lines
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
      state[0][i] = std::abs(normal(random));  // Adagrad's sum is never negative
      state[1][i] = std::abs(normal(random));  // nor Adam's second moment
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

// Numbers in which no product is exact; a clamp for every other step.
inline UpdateRuleOptions rule_of(UpdateRuleKind kind) {
  return {.kind = kind, .momentum = 0.87F, .weight_decay = 0.003F};
}
inline UpdateStep step_of(uint64_t number) {
  return {.number = number,
          .learning_rate = 0.013F,
          .gradient_scale = 0.37F,
          .clip_value = number % 2 == 0 ? 0.4F : 0.0F};
}

// Whether the kernels of the processor have fused multiply-add: the square of 1 + 2^-12 has a last
// bit of 2^-24, which a product that is rounded by itself loses.
inline bool kernels_fuse() {
  RuleBlock block(1, DType::kFloat32);
  block.weights[0] = 1 + 0x1p-12F;
  block.gradient[0] = -(1 + 0x1p-11F);
  block.state[0][0] = 0;
  const UpdateRuleOptions rule{.kind = UpdateRuleKind::kMomentum, .weight_decay = 1 + 0x1p-12F};
  return block.updated(rule, {.learning_rate = 1}).state[0][0] == 0x1p-24F;
}

}  // namespace ffdl::testing
