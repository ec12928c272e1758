#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "ffdl/ps/update_rule.h"

// Computes the built-in rules for one element, on host and device. The formulas and multiply-adds
// equal those of update_kernels.cc. So the bits are equal if the processor has fused multiply-add.
// There are two versions because vectors of Highway are not floats.
namespace ffdl::ps {

// The numbers that all elements of an update share.
struct RuleNumbers {
  float scale = 1;
  float limit = 0;  // 0: no clamp
  float rate = 0;   // Adam: divided by the correction of the first moment
  float decay = 0;
  float momentum = 0;
  float beta1 = 0, beta2 = 0;
  float rest1 = 0, rest2 = 0;  // 1 - beta
  float root = 1;              // Adam: reciprocal of the root of the second moment's correction
  float shrink = 1;            // AdamW: the factor of the weight that remains after decay
  float epsilon = 0;
};

// Computes the corrections of Adam's moments: Kingma & Ba 2015, algorithm 1. AdamW's decay:
// Loshchilov & Hutter 2019, algorithm 2.
inline RuleNumbers rule_numbers(const UpdateRuleOptions& options, const UpdateStep& step) {
  RuleNumbers numbers{.scale = step.gradient_scale,
                      .limit = step.clip_value,
                      .rate = step.learning_rate,
                      .decay = options.weight_decay,
                      .momentum = options.momentum,
                      .beta1 = options.beta1,
                      .beta2 = options.beta2,
                      .rest1 = 1 - options.beta1,
                      .rest2 = 1 - options.beta2,
                      .epsilon = options.epsilon};
  const bool decoupled = options.kind == UpdateRuleKind::kAdamW;
  if (!decoupled && options.kind != UpdateRuleKind::kAdam) return numbers;
  const auto t = static_cast<double>(step.number);
  const double correction1 = 1 - std::pow(double{options.beta1}, t);
  const double correction2 = 1 - std::pow(double{options.beta2}, t);
  numbers.rate = static_cast<float>(step.learning_rate / correction1);
  numbers.root = static_cast<float>(1 / std::sqrt(correction2));
  if (decoupled) {
    numbers.shrink = 1 - step.learning_rate * options.weight_decay;
    numbers.decay = 0;
  }
  return numbers;
}

// Returns the number of values that a rule keeps per weight.
FFDL_HOST_DEVICE constexpr int state_count(UpdateRuleKind kind) {
  switch (kind) {
    case UpdateRuleKind::kAdam:
    case UpdateRuleKind::kAdamW:
      return 2;
    case UpdateRuleKind::kMomentum:
    case UpdateRuleKind::kNesterov:
    case UpdateRuleKind::kAdagrad:
      return 1;
    case UpdateRuleKind::kSgd:
    case UpdateRuleKind::kAverage:
      return 0;
  }
  return 0;
}

// Returns the gradient for the rule: scaled, then clamped.
FFDL_HOST_DEVICE inline float seen_gradient(const RuleNumbers& n, float gradient) {
  const float scaled = gradient * n.scale;
  if (!(n.limit > 0)) return scaled;
  const float raised = scaled > -n.limit ? scaled : -n.limit;
  return raised < n.limit ? raised : n.limit;
}

// Returns the new value of a weight, and changes its state_count(kind) values of state.
template <UpdateRuleKind kKind>
FFDL_HOST_DEVICE float updated(const RuleNumbers& n, float gradient, float weight, float* state) {
  const float seen = seen_gradient(n, gradient);
  const float g = fmaf(n.decay, weight, seen);
  if constexpr (kKind == UpdateRuleKind::kAverage) {
    return weight - seen;
  } else if constexpr (kKind == UpdateRuleKind::kSgd) {
    return fmaf(-n.rate, g, weight);
  } else if constexpr (kKind == UpdateRuleKind::kMomentum) {
    state[0] = fmaf(n.momentum, state[0], g);
    return fmaf(-n.rate, state[0], weight);
  } else if constexpr (kKind == UpdateRuleKind::kNesterov) {
    state[0] = fmaf(n.momentum, state[0], g);
    return fmaf(-n.rate, fmaf(n.momentum, state[0], g), weight);
  } else if constexpr (kKind == UpdateRuleKind::kAdagrad) {
    state[0] = fmaf(g, g, state[0]);
    return weight - (n.rate * g) / (sqrtf(state[0]) + n.epsilon);
  } else {
    static_assert(kKind == UpdateRuleKind::kAdam || kKind == UpdateRuleKind::kAdamW);
    state[0] = fmaf(n.beta1, state[0], n.rest1 * g);
    state[1] = fmaf(n.beta2, state[1], n.rest2 * (g * g));
    const float divisor = fmaf(sqrtf(state[1]), n.root, n.epsilon);
    return n.shrink * weight - (n.rate * state[0]) / divisor;
  }
}

}  // namespace ffdl::ps
