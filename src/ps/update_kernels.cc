#include "ps/update_kernels.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ps/update_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ffdl::ps::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;  // divides every block: count is a multiple of 16
using Vec = hn::Vec<FloatTag>;

// The gradient as the rule sees it: scaled, then clamped.
class GradientLoader {
 public:
  explicit GradientLoader(const UpdateStep& step)
      : scale_(hn::Set(FloatTag(), step.gradient_scale)),
        limit_(hn::Set(FloatTag(), step.clip_value)),
        lower_(hn::Neg(limit_)),
        clamp_(step.clip_value > 0) {}

  Vec operator()(const float* from) const {
    const Vec scaled = hn::Mul(hn::Load(FloatTag(), from), scale_);
    return clamp_ ? hn::Min(hn::Max(scaled, lower_), limit_) : scaled;
  }

 private:
  Vec scale_;
  Vec limit_;
  Vec lower_;
  bool clamp_;
};

void Sgd(const UpdateRuleOptions& rule, const UpdateStep& step, const UpdateBlock& block) {
  const FloatTag d;
  const GradientLoader load(step);
  const Vec rate = hn::Set(d, step.learning_rate);
  const Vec decay = hn::Set(d, rule.weight_decay);
  HWY_UNROLL(4)
  for (uint64_t i = 0; i < block.count; i += hn::Lanes(d)) {
    const Vec weight = hn::Load(d, block.weights + i);
    const Vec gradient = hn::MulAdd(decay, weight, load(block.gradient + i));
    hn::Store(hn::NegMulAdd(rate, gradient, weight), d, block.new_weights + i);
  }
}

void Momentum(const UpdateRuleOptions& rule, const UpdateStep& step, const UpdateBlock& block) {
  const FloatTag d;
  const GradientLoader load(step);
  const Vec rate = hn::Set(d, step.learning_rate);
  const Vec decay = hn::Set(d, rule.weight_decay);
  const Vec momentum = hn::Set(d, rule.momentum);
  HWY_UNROLL(4)
  for (uint64_t i = 0; i < block.count; i += hn::Lanes(d)) {
    const Vec weight = hn::Load(d, block.weights + i);
    const Vec gradient = hn::MulAdd(decay, weight, load(block.gradient + i));
    const Vec velocity = hn::MulAdd(momentum, hn::Load(d, block.state[0] + i), gradient);
    hn::Store(velocity, d, block.new_state[0] + i);
    hn::Store(hn::NegMulAdd(rate, velocity, weight), d, block.new_weights + i);
  }
}

void Nesterov(const UpdateRuleOptions& rule, const UpdateStep& step, const UpdateBlock& block) {
  const FloatTag d;
  const GradientLoader load(step);
  const Vec rate = hn::Set(d, step.learning_rate);
  const Vec decay = hn::Set(d, rule.weight_decay);
  const Vec momentum = hn::Set(d, rule.momentum);
  for (uint64_t i = 0; i < block.count; i += hn::Lanes(d)) {
    const Vec weight = hn::Load(d, block.weights + i);
    const Vec gradient = hn::MulAdd(decay, weight, load(block.gradient + i));
    const Vec velocity = hn::MulAdd(momentum, hn::Load(d, block.state[0] + i), gradient);
    const Vec move = hn::MulAdd(momentum, velocity, gradient);  // one step of the velocity ahead
    hn::Store(velocity, d, block.new_state[0] + i);
    hn::Store(hn::NegMulAdd(rate, move, weight), d, block.new_weights + i);
  }
}

void Adagrad(const UpdateRuleOptions& rule, const UpdateStep& step, const UpdateBlock& block) {
  const FloatTag d;
  const GradientLoader load(step);
  const Vec rate = hn::Set(d, step.learning_rate);
  const Vec decay = hn::Set(d, rule.weight_decay);
  const Vec epsilon = hn::Set(d, rule.epsilon);
  for (uint64_t i = 0; i < block.count; i += hn::Lanes(d)) {
    const Vec weight = hn::Load(d, block.weights + i);
    const Vec gradient = hn::MulAdd(decay, weight, load(block.gradient + i));
    const Vec sum = hn::MulAdd(gradient, gradient, hn::Load(d, block.state[0] + i));
    const Vec move = hn::Div(hn::Mul(rate, gradient), hn::Add(hn::Sqrt(sum), epsilon));
    hn::Store(sum, d, block.new_state[0] + i);
    hn::Store(hn::Sub(weight, move), d, block.new_weights + i);
  }
}

void Average(const UpdateStep& step, const UpdateBlock& block) {
  const FloatTag d;
  const GradientLoader load(step);
  for (uint64_t i = 0; i < block.count; i += hn::Lanes(d)) {
    const Vec weight = hn::Load(d, block.weights + i);
    hn::Store(hn::Sub(weight, load(block.gradient + i)), d, block.new_weights + i);
  }
}

void Adam(const UpdateRuleOptions& rule, const UpdateStep& step, const UpdateBlock& block) {
  const FloatTag d;
  const GradientLoader load(step);
  const bool decoupled = rule.kind == UpdateRuleKind::kAdamW;
  const auto t = static_cast<double>(step.number);
  const double correction1 = 1 - std::pow(double{rule.beta1}, t);
  const double correction2 = 1 - std::pow(double{rule.beta2}, t);
  const Vec rate = hn::Set(d, static_cast<float>(step.learning_rate / correction1));
  const Vec root = hn::Set(d, static_cast<float>(1 / std::sqrt(correction2)));
  const Vec shrink = hn::Set(d, decoupled ? 1 - step.learning_rate * rule.weight_decay : 1.0F);
  const Vec decay = hn::Set(d, decoupled ? 0.0F : rule.weight_decay);
  const Vec beta1 = hn::Set(d, rule.beta1);
  const Vec beta2 = hn::Set(d, rule.beta2);
  const Vec rest1 = hn::Set(d, 1 - rule.beta1);
  const Vec rest2 = hn::Set(d, 1 - rule.beta2);
  const Vec epsilon = hn::Set(d, rule.epsilon);
  HWY_UNROLL(4)
  for (uint64_t i = 0; i < block.count; i += hn::Lanes(d)) {
    const Vec weight = hn::Load(d, block.weights + i);
    const Vec gradient = hn::MulAdd(decay, weight, load(block.gradient + i));
    const Vec mean = hn::MulAdd(beta1, hn::Load(d, block.state[0] + i), hn::Mul(rest1, gradient));
    const Vec square = hn::MulAdd(beta2, hn::Load(d, block.state[1] + i),
                                  hn::Mul(rest2, hn::Mul(gradient, gradient)));
    hn::Store(mean, d, block.new_state[0] + i);
    hn::Store(square, d, block.new_state[1] + i);
    const Vec divisor = hn::MulAdd(hn::Sqrt(square), root, epsilon);
    const Vec move = hn::Div(hn::Mul(rate, mean), divisor);
    hn::Store(hn::Sub(hn::Mul(shrink, weight), move), d, block.new_weights + i);
  }
}

}  // namespace ffdl::ps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ffdl::ps {

HWY_EXPORT(Sgd);
HWY_EXPORT(Momentum);
HWY_EXPORT(Nesterov);
HWY_EXPORT(Adagrad);
HWY_EXPORT(Average);
HWY_EXPORT(Adam);

void update_sgd(const UpdateRuleOptions& rule, const UpdateStep& step, const UpdateBlock& block) {
  HWY_DYNAMIC_DISPATCH(Sgd)(rule, step, block);
}
void update_momentum(const UpdateRuleOptions& rule, const UpdateStep& step,
                     const UpdateBlock& block) {
  HWY_DYNAMIC_DISPATCH(Momentum)(rule, step, block);
}
void update_nesterov(const UpdateRuleOptions& rule, const UpdateStep& step,
                     const UpdateBlock& block) {
  HWY_DYNAMIC_DISPATCH(Nesterov)(rule, step, block);
}
void update_adagrad(const UpdateRuleOptions& rule, const UpdateStep& step,
                    const UpdateBlock& block) {
  HWY_DYNAMIC_DISPATCH(Adagrad)(rule, step, block);
}
void update_average(const UpdateRuleOptions& /*rule*/, const UpdateStep& step,
                    const UpdateBlock& block) {
  HWY_DYNAMIC_DISPATCH(Average)(step, block);
}
void update_adam(const UpdateRuleOptions& rule, const UpdateStep& step, const UpdateBlock& block) {
  HWY_DYNAMIC_DISPATCH(Adam)(rule, step, block);
}

}  // namespace ffdl::ps
#endif  // HWY_ONCE
