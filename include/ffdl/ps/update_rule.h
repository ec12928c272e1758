#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl {

// The maximum number of values that a rule may keep per weight.
inline constexpr int kRuleStateMax = 4;

// The numbers of one whole update. One update is one published gradient, or one round of them with
// Synchrony::kBulk.
struct UpdateStep {
  uint64_t number = 1;        // 1 for the first update of these weights
  float learning_rate = 0;    // from the schedule, at `number`
  float gradient_scale = 1;   // multiplies every element of the gradient first
  float clip_value = 0;       // then elements are clamped to [-clip_value, clip_value]; 0: not
  uint32_t mini_batches = 1;  // number of mini-batches added up in this gradient
};

// One block of one update. A rule reads the old values and writes the new ones, never both at one
// address. All arrays have `count` elements, a multiple of 16, and are 64-byte aligned.
struct UpdateBlock {
  uint64_t count = 0;
  const float* gradient = nullptr;
  const float* weights = nullptr;
  float* new_weights = nullptr;
  std::array<const float*, kRuleStateMax> state{};
  std::array<float*, kRuleStateMax> new_state{};
};

// The way in which a gradient changes weights. Implement it for a custom rule; UpdateRuleOptions
// describes the built-in ones.
// A rule is element-wise: the new value of an element depends on that element's old values, its
// gradient and the UpdateStep alone. After a crash a block may be computed again from the same
// inputs. The result must be the same to the last bit.
// Threads: the server's threads call apply(), several at once; it must not call ffdl.
class FFDL_API UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  // Returns the name, which the segment records; a successor server must have a rule of that name.
  virtual std::string_view name() const = 0;

  // Returns the number of values kept per weight, 0 to kRuleStateMax; they start at zero.
  virtual int state_count() const = 0;

  // Returns true if k accumulated mini-batches are one step with their mean. That suits rules whose
  // step does not grow with the gradient, such as Adagrad and Adam. False: one step with their sum,
  // as k small steps of plain or momentum descent.
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
  kAverage,  // w -= g, without the numbers below: the server of AveragingLearners
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
  float weight_decay = 0;  // added to the gradient; kAdamW: subtracted from the weight instead
};

// The learning rate over the updates of a run: a linear warm-up, then a decay.
struct LearningRateSchedule {
  enum class Decay : uint32_t { kConstant, kLinear, kCosine, kStep };
  Decay decay = Decay::kConstant;
  uint64_t warmup_steps = 0;  // factor grows linearly from 1/warmup_steps to 1
  uint64_t decay_steps = 0;   // kLinear, kCosine: length of the decay; kStep: its period
  float final_factor = 0;     // kLinear, kCosine: the last factor; kStep: factor per period
};

// Returns the factor on the base learning rate at update `number` (1 for the first). Pure.
FFDL_API float schedule_factor(const LearningRateSchedule& schedule, uint64_t number);

// Creates the rule that the options describe.
// Errors: kInvalidArgument for an impossible number (negative, NaN, beta >= 1).
FFDL_API Result<std::unique_ptr<UpdateRule>> make_update_rule(const UpdateRuleOptions& options);

// Converts between a rule and its name on command lines and in Python: "sgd", "momentum", "adam",
// "adamw", "nesterov", "adagrad", "average".
FFDL_API std::string_view to_string(UpdateRuleKind kind);
FFDL_API Result<UpdateRuleKind> parse_update_rule(std::string_view name);

}  // namespace ffdl

// The built-in rules on arrays in a GPU's memory. They are for a training whose weights are there
// and that has no kernels of its own, such as a session (session.h). docs/guide/gpu.md has an
// example.
namespace ffdl {

// One update of `count` weights in place. All arrays have `count` elements, possibly 0, are in
// memory that the GPU reaches and are aligned to 16 bytes. They must not overlap.
struct DeviceUpdate {
  uint64_t count = 0;
  DType gradient_type = DType::kFloat32;  // or kBFloat16, kFloat16: widened first
  const void* gradient = nullptr;
  float* weights = nullptr;
  // The values that the rule keeps, zeros before the first update. kMomentum, kNesterov and
  // kAdagrad have one array, kAdam and kAdamW two, the others none. In a session they are part of
  // its state.
  float* state[kRuleStateMax] = {};
};

// Adds the update to `stream`, a cudaStream_t of the GPU that this thread uses; null is its default
// stream. Returns at once: the arrays must stay until the stream has finished it. The learning rate
// is `step.learning_rate`, not that of the options. `step.number` counts from 1. The weights get
// the bits of a ParameterServer's rule on a processor with fused multiply-add, except for the
// payload of NaN.
// Threads: any, each with its own streams.
// Errors: kInvalidArgument (not a rule, number 0, gradients of other types, arrays that are null or
//         not aligned), kUnimplemented (no GPU, driver or kernel for it; a build without CUDA),
//         kInternal (the error of CUDA, which may come from an earlier launch).
FFDL_API Status update_on_device(const UpdateRuleOptions& options, const UpdateStep& step,
                                 const DeviceUpdate& update, void* stream = nullptr);

}  // namespace ffdl
