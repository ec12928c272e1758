#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ffdl/status.h"

namespace ffdl {

// The most values that a rule may keep per weight.
inline constexpr int kRuleStateMax = 4;

// Numbers that hold for one whole update. One update is one published gradient (or, with
// Synchrony::kBulk, one round of them).
struct UpdateStep {
  uint64_t number = 1;        // 1 for the first update of these weights
  float learning_rate = 0;    // from the schedule, at `number`
  float gradient_scale = 1;   // multiplies every element of the gradient first
  float clip_value = 0;       // then elements are clamped to [-clip_value, clip_value]; 0: not
  uint32_t mini_batches = 1;  // how many mini-batches were added up in this gradient
};

// One block of one update, out of place: a rule reads the old values and writes the new ones, and
// never both at one address. All arrays have `count` elements, a multiple of 16, and are 64-byte
// aligned.
struct UpdateBlock {
  uint64_t count = 0;
  const float* gradient = nullptr;
  const float* weights = nullptr;
  float* new_weights = nullptr;
  std::array<const float*, kRuleStateMax> state{};
  std::array<float*, kRuleStateMax> new_state{};
};

// How a gradient changes weights. Implement it for a rule of your own; the built-in ones come from
// UpdateRuleOptions.
// A rule is element-wise: the new value of an element depends on that element's old values, its
// gradient and the UpdateStep alone. A block may be computed again after a crash, from the same
// inputs, and must come out the same to the last bit.
// Threads: apply() is called by the server's threads, several at once; it must not call ffdl.
class FFDL_API UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  // Recorded in the segment; a successor server must bring a rule of the same name.
  virtual std::string_view name() const = 0;

  // Values kept per weight, 0 to kRuleStateMax; they start at zero.
  virtual int state_count() const = 0;

  // Whether k accumulated mini-batches are one step with their mean (Adagrad, Adam and their kin,
  // whose step does not grow with the gradient) or with their sum (plain and momentum descent: k
  // small steps).
  virtual bool takes_mean() const = 0;

  virtual void apply(const UpdateStep& step, const UpdateBlock& block) const = 0;
};

enum class UpdateRuleKind : uint32_t {
  kSgd,
  kMomentum,
  kAdam,
  kAdamW,
  kNesterov,
  kAdagrad,
  kAverage,  // w -= g, and none of the numbers below: the server of AveragingLearners
};

// The built-in rules, with PyTorch's names and conventions for the numbers.
struct UpdateRuleOptions {
  UpdateRuleKind kind = UpdateRuleKind::kSgd;
  float learning_rate = 0.01F;
  // kMomentum: v = momentum * v + g; w -= lr * v. kNesterov: w -= lr * (g + momentum * v) instead.
  float momentum = 0.9F;
  float beta1 = 0.9F;      // kAdam, kAdamW
  float beta2 = 0.999F;    // kAdam, kAdamW
  float epsilon = 1e-8F;   // kAdam, kAdamW; kAdagrad: s += g * g; w -= lr * g / (sqrt(s) + epsilon)
  float weight_decay = 0;  // added to the gradient; kAdamW: taken from the weight instead
};

// Learning rate over the updates of a run: a linear warm-up, then a decay.
struct LearningRateSchedule {
  enum class Decay : uint32_t { kConstant, kLinear, kCosine, kStep };
  Decay decay = Decay::kConstant;
  uint64_t warmup_steps = 0;  // factor grows linearly from 1/warmup_steps to 1
  uint64_t decay_steps = 0;   // kLinear, kCosine: length of the decay; kStep: its period
  float final_factor = 0;     // kLinear, kCosine: where it ends; kStep: factor per period
};

// The factor on the base learning rate at update `number` (1 for the first). Pure.
FFDL_API float schedule_factor(const LearningRateSchedule& schedule, uint64_t number);

// The rule that the options describe.
// Errors: kInvalidArgument for a number that no training can mean (negative, NaN, beta >= 1).
FFDL_API Result<std::unique_ptr<UpdateRule>> make_update_rule(const UpdateRuleOptions& options);

// "sgd", "momentum", "adam", "adamw", "nesterov", "adagrad", "average": the names on command lines
// and in Python, both ways.
FFDL_API std::string_view to_string(UpdateRuleKind kind);
FFDL_API Result<UpdateRuleKind> parse_update_rule(std::string_view name);

}  // namespace ffdl
