#pragma once

#include <cstdint>

#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/types.h"
#include "ffdl/update_rule.h"

// The built-in rules on arrays in a GPU's memory, for programs whose weights lie there: a session's
// (session.h) that has no kernels of its own. docs/gpu.md shows one.
namespace ffdl {

// One update of `count` weights in place. All arrays have `count` elements, which may be none, lie
// in memory that the GPU reaches and are aligned to 16 bytes; none overlaps another.
struct DeviceUpdate {
  uint64_t count = 0;
  DType gradient_type = DType::kFloat32;  // or kBFloat16, kFloat16: widened first
  const void* gradient = nullptr;
  float* weights = nullptr;
  // What the rule keeps, zeros before the first update: kMomentum, kNesterov and kAdagrad one,
  // kAdam and kAdamW two, the others none. Part of what members of a session hold in common.
  float* state[kRuleStateMax] = {};
};

// Adds the update to `stream`, a cudaStream_t of the GPU that this thread uses; null is its default
// stream. Returns at once: arrays must stay until the stream has done it. `step.learning_rate` is
// what counts, not that of the options, and `step.number` counts from 1. The weights get the bits
// that a ParameterServer's rule gives on a processor with fused multiply-add, but for the payload
// of NaN.
// Threads: any, each with its own streams.
// Errors: kInvalidArgument (a rule that is none, number 0, gradients of other types, arrays that
//         are null or not aligned), kUnimplemented (no GPU, driver or kernel for it; a build
//         without CUDA), kInternal (what CUDA says, which may come from an earlier launch).
FFDL_API Status update_on_device(const UpdateRuleOptions& options, const UpdateStep& step,
                                 const DeviceUpdate& update, void* stream = nullptr);

}  // namespace ffdl
