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

// The maximum number of state values per weight that a rule may have.
inline constexpr int kRuleStateMax = 4;

// The numbers of one whole update. An update applies one published gradient, or one round of
// gradients with Synchrony::kBulk.
struct UpdateStep {
  uint64_t number = 1;        // 1 for the first update of these weights
  float learning_rate = 0;    // from the schedule, at `number`
  float gradient_scale = 1;   // multiplies every element of the gradient first
  float clip_value = 0;       // then clamps elements to [-clip_value, clip_value]; 0: no clamping
  uint32_t mini_batches = 1;  // number of mini-batches added up in this gradient
};

// One block of one update. A rule reads the old values and writes the new values to other arrays.
// All arrays have `count` elements, a multiple of 16, and are 64-byte aligned.
struct UpdateBlock {
  uint64_t count = 0;
  const float* gradient = nullptr;
  const float* weights = nullptr;
  float* new_weights = nullptr;
  std::array<const float*, kRuleStateMax> state{};
  std::array<float*, kRuleStateMax> new_state{};
};

// The rule by which a gradient changes weights. Implement this class for a custom rule;
// UpdateRuleOptions describes the built-in rules.
// A rule is element-wise: the new value of an element depends on that element's old values, its
// gradient and the UpdateStep alone. After a crash a block may be computed again from the same
// inputs. The result must then have the same bits.
// Threads: several threads of the server call apply() at once; apply() must not call ffdl.
class FFDL_API UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  // Returns the name, which the segment records. adopt() requires a rule of that name.
  virtual std::string_view name() const = 0;

  // Returns the number of state values per weight, 0 to kRuleStateMax. They start at zero.
  virtual int state_count() const = 0;

  // Returns true if k accumulated mini-batches are one step with the mean of their gradients. This
  // suits rules whose step does not grow with the gradient, such as Adagrad and Adam. False: one
  // step with the sum. Momentum and weight decay act once. Without them the step equals k SGD steps
  // whose gradients were all computed from the same weights.
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
  kAverage,  // w -= g, ignores the numbers below: for AveragingLearners
};

// The options of the built-in rules, with PyTorch's names and conventions.
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
  uint64_t warmup_steps = 0;  // the factor grows linearly from 1/warmup_steps to 1
  uint64_t decay_steps = 0;   // kLinear, kCosine: length of the decay; kStep: its period
  float final_factor = 0;     // kLinear, kCosine: the last factor; kStep: factor per period
};

// Returns the factor of the base learning rate at update `number` (1 for the first). Pure.
FFDL_API float schedule_factor(const LearningRateSchedule& schedule, uint64_t number);

// Creates the rule that the options describe.
// Errors: kInvalidArgument for an impossible number (negative, NaN, beta >= 1).
FFDL_API Result<std::unique_ptr<UpdateRule>> make_update_rule(const UpdateRuleOptions& options);

// Converts between a rule and its name on command lines and in Python: "sgd", "momentum", "adam",
// "adamw", "nesterov", "adagrad", "average".
FFDL_API std::string_view to_string(UpdateRuleKind kind);
FFDL_API Result<UpdateRuleKind> parse_update_rule(std::string_view name);

}  // namespace ffdl

// The built-in rules on arrays in a GPU's memory. Use them if the weights are there and the program
// has no kernels for the update, such as in a session (session.h). docs/guide/gpu.md has an
// example.
namespace ffdl {

// One update of `count` weights in place. All arrays have `count` elements, possibly 0. They are in
// memory that the GPU reaches, are aligned to 16 bytes and do not overlap.
struct DeviceUpdate {
  uint64_t count = 0;
  DType gradient_type = DType::kFloat32;  // or kBFloat16, kFloat16: widened first
  const void* gradient = nullptr;
  float* weights = nullptr;
  // The rule's state, zeros before the first update. kMomentum, kNesterov and kAdagrad have one
  // array, kAdam and kAdamW two, the other rules none. In a session the arrays belong to
  // Trainable::state().
  float* state[kRuleStateMax] = {};
};

// Enqueues the update on `stream`, a cudaStream_t of the GPU that this thread uses; null is the
// default stream. Returns at once: the arrays must exist until the update has ended. The learning
// rate is `step.learning_rate`, not that of the options. `step.number` counts from 1. The results
// have the same bits as on a processor with fused multiply-add, except for the payload of NaN.
// Threads: any, each with its own streams.
// Errors: kInvalidArgument (no such rule, number 0, gradients of other types, arrays that are null
//         or not aligned), kUnimplemented (no GPU, driver or kernel for it; a build without CUDA),
//         kInternal (an error of CUDA, possibly of an earlier launch).
FFDL_API Status update_on_device(const UpdateRuleOptions& options, const UpdateStep& step,
                                 const DeviceUpdate& update, void* stream = nullptr);

}  // namespace ffdl
