#include "ps/rules/update_kernels.h"

#include "base/kernel_choice.h"
#include "ps/rules/rule_arithmetic.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ps/rules/update_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ffdl::ps::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;  // divides every block: count is a multiple of 16
using Vec = hn::Vec<FloatTag>;

// Loads the gradient for the rule: scaled, then clamped.
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

// A rule returns the new values of a vector of weights, and changes its vectors of state.

struct Sgd {
  static constexpr int kState = 0;
  Sgd(const UpdateRuleOptions& options, const UpdateStep& step)
      : load(step),
        rate(hn::Set(FloatTag(), step.learning_rate)),
        decay(hn::Set(FloatTag(), options.weight_decay)) {}

  Vec operator()(Vec weight, const float* from, Vec* /*state*/) const {
    return hn::NegMulAdd(rate, hn::MulAdd(decay, weight, load(from)), weight);
  }

  GradientLoader load;
  Vec rate;
  Vec decay;
};

struct Momentum {
  static constexpr int kState = 1;
  Momentum(const UpdateRuleOptions& options, const UpdateStep& step)
      : load(step),
        rate(hn::Set(FloatTag(), step.learning_rate)),
        decay(hn::Set(FloatTag(), options.weight_decay)),
        momentum(hn::Set(FloatTag(), options.momentum)) {}

  Vec operator()(Vec weight, const float* from, Vec* state) const {
    state[0] = hn::MulAdd(momentum, state[0], hn::MulAdd(decay, weight, load(from)));
    return hn::NegMulAdd(rate, state[0], weight);
  }

  GradientLoader load;
  Vec rate;
  Vec decay;
  Vec momentum;
};

struct Nesterov : Momentum {
  using Momentum::Momentum;

  Vec operator()(Vec weight, const float* from, Vec* state) const {
    const Vec gradient = hn::MulAdd(decay, weight, load(from));
    state[0] = hn::MulAdd(momentum, state[0], gradient);
    const Vec move = hn::MulAdd(momentum, state[0], gradient);  // one step of the velocity ahead
    return hn::NegMulAdd(rate, move, weight);
  }
};

struct Adagrad {
  static constexpr int kState = 1;
  Adagrad(const UpdateRuleOptions& options, const UpdateStep& step)
      : load(step),
        rate(hn::Set(FloatTag(), step.learning_rate)),
        decay(hn::Set(FloatTag(), options.weight_decay)),
        epsilon(hn::Set(FloatTag(), options.epsilon)) {}

  Vec operator()(Vec weight, const float* from, Vec* state) const {
    const Vec gradient = hn::MulAdd(decay, weight, load(from));
    state[0] = hn::MulAdd(gradient, gradient, state[0]);
    const Vec divisor = hn::Add(hn::Sqrt(state[0]), epsilon);
    return hn::Sub(weight, hn::Div(hn::Mul(rate, gradient), divisor));
  }

  GradientLoader load;
  Vec rate;
  Vec decay;
  Vec epsilon;
};

struct Average {
  static constexpr int kState = 0;
  Average(const UpdateRuleOptions& /*options*/, const UpdateStep& step) : load(step) {}

  Vec operator()(Vec weight, const float* from, Vec* /*state*/) const {
    return hn::Sub(weight, load(from));
  }

  GradientLoader load;
};

// Computes Adam, and AdamW, by options.kind.
struct Adam {
  static constexpr int kState = 2;
  Adam(const UpdateRuleOptions& options, const UpdateStep& step) : load(step) {
    const FloatTag d;
    const RuleNumbers numbers = rule_numbers(options, step);
    rate = hn::Set(d, numbers.rate);
    root = hn::Set(d, numbers.root);
    shrink = hn::Set(d, numbers.shrink);
    decay = hn::Set(d, numbers.decay);
    beta1 = hn::Set(d, numbers.beta1);
    beta2 = hn::Set(d, numbers.beta2);
    rest1 = hn::Set(d, numbers.rest1);
    rest2 = hn::Set(d, numbers.rest2);
    epsilon = hn::Set(d, numbers.epsilon);
  }

  Vec operator()(Vec weight, const float* from, Vec* state) const {
    const Vec gradient = hn::MulAdd(decay, weight, load(from));
    state[0] = hn::MulAdd(beta1, state[0], hn::Mul(rest1, gradient));
    state[1] = hn::MulAdd(beta2, state[1], hn::Mul(rest2, hn::Mul(gradient, gradient)));
    const Vec divisor = hn::MulAdd(hn::Sqrt(state[1]), root, epsilon);
    const Vec move = hn::Div(hn::Mul(rate, state[0]), divisor);
    return hn::Sub(hn::Mul(shrink, weight), move);
  }

  GradientLoader load;
  Vec rate, root, shrink, decay, beta1, beta2, rest1, rest2, epsilon;
};

// Updates `count` floats, from old values to new ones in separate memory.
template <class Rule>
HWY_INLINE void UpdateFloats(const Rule& rule, uint64_t count, const float* gradient,
                             const float* weights, float* new_weights, const float* const* state,
                             float* const* new_state) {
  const FloatTag d;
  HWY_UNROLL(4)
  for (uint64_t i = 0; i < count; i += hn::Lanes(d)) {
    Vec values[1 + Rule::kState];  // the last one is not used
    for (int s = 0; s < Rule::kState; ++s) values[s] = hn::Load(d, state[s] + i);
    hn::Store(rule(hn::Load(d, weights + i), gradient + i, values), d, new_weights + i);
    for (int s = 0; s < Rule::kState; ++s) hn::Store(values[s], d, new_state[s] + i);
  }
}

HWY_INLINE void CopyStep(float* to, const float* from) {
  const FloatTag d;
  HWY_UNROLL(4)
  for (uint64_t i = 0; i < kRunFloats; i += hn::Lanes(d))
    hn::Store(hn::Load(d, from + i), d, to + i);
}

template <class Rule>
void BlockOf(const UpdateRuleOptions& options, const UpdateStep& step, const UpdateBlock& block) {
  UpdateFloats(Rule(options, step), block.count, block.gradient, block.weights, block.new_weights,
               block.state.data(), block.new_state.data());
}

// The fences keep the order of the stores. A killed server leaves its stores up to one point of its
// machine code.
template <class Rule>
void RunOf(const UpdateRuleOptions& options, const UpdateStep& step, const JournalledRun& run) {
  const Rule rule(options, step);
  float* weights = run.weights;
  const float* gradient = run.gradient;
  auto state = run.state;
  for (uint64_t number = run.first + 1; number <= run.first + run.steps; ++number) {
    const auto& shadow = run.shadow[number & 1];
    UpdateFloats(rule, kRunFloats, gradient, weights, shadow[0], state.data(), shadow.data() + 1);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    run.journal->store(run.journal_word + (number << 32), std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    CopyStep(weights, shadow[0]);
    for (int s = 0; s < Rule::kState; ++s) {
      CopyStep(state[static_cast<size_t>(s)], shadow[static_cast<size_t>(s) + 1]);
      state[static_cast<size_t>(s)] += kRunFloats;
    }
    std::atomic_signal_fence(std::memory_order_seq_cst);
    weights += kRunFloats;
    gradient += kRunFloats;
  }
}

#define FFDL_BY_KIND(Function, ...)           \
  switch (options.kind) {                     \
    case UpdateRuleKind::kSgd:                \
      return Function<Sgd>(__VA_ARGS__);      \
    case UpdateRuleKind::kMomentum:           \
      return Function<Momentum>(__VA_ARGS__); \
    case UpdateRuleKind::kAdam:               \
    case UpdateRuleKind::kAdamW:              \
      return Function<Adam>(__VA_ARGS__);     \
    case UpdateRuleKind::kNesterov:           \
      return Function<Nesterov>(__VA_ARGS__); \
    case UpdateRuleKind::kAdagrad:            \
      return Function<Adagrad>(__VA_ARGS__);  \
    case UpdateRuleKind::kAverage:            \
      return Function<Average>(__VA_ARGS__);  \
  }

void Block(const UpdateRuleOptions& options, const UpdateStep& step, const UpdateBlock& block) {
  FFDL_BY_KIND(BlockOf, options, step, block)
}

void Run(const UpdateRuleOptions& options, const UpdateStep& step, const JournalledRun& run) {
  FFDL_BY_KIND(RunOf, options, step, run)
}

#undef FFDL_BY_KIND

}  // namespace ffdl::ps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ffdl::ps {

FFDL_KERNEL(Block);
FFDL_KERNEL(Run);

void update_block(const UpdateRuleOptions& options, const UpdateStep& step,
                  const UpdateBlock& block) {
  FFDL_BEST_KERNEL(Block)(options, step, block);
}

void update_run(const UpdateRuleOptions& options, const UpdateStep& step,
                const JournalledRun& run) {
  FFDL_BEST_KERNEL(Run)(options, step, run);
}

}  // namespace ffdl::ps
#endif  // HWY_ONCE
