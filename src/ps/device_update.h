#pragma once

#include <cstdint>

#include "base/device.h"
#include "ffdl/types.h"
#include "ffdl/update_rule.h"

// The built-in rules on arrays in a GPU's memory: the twin of update_kernels.h. cuda/ defines it;
// in a build without CUDA cuda/no_cuda.cc does.
namespace ffdl::ps {

// One update of `count` weights in place: what dies with the process is the GPU's memory as a
// whole, so nothing is kept for a successor. `count` may be any number, 0 included. All arrays have
// `count` elements, lie in memory that the GPU reaches and are aligned to 16 bytes; none overlaps
// another.
struct DeviceUpdate {
  uint64_t count = 0;
  DType gradient_type = DType::kFloat32;  // or kBFloat16, kFloat16: widened first
  const void* gradient = nullptr;
  float* weights = nullptr;
  float* state[kRuleStateMax] = {};  // as many as the rule keeps: none, 1 or 2
};

// Adds the update to `stream` and returns: arrays must stay until the stream has done it. The
// weights get the bits that update_block() gives on a processor with fused multiply-add, but for
// the payload of NaN.
// Threads: any, each with its own streams.
// Errors: kInvalidArgument (check_update), kUnimplemented (no GPU, driver or kernel for it; a build
// without CUDA), kInternal (what CUDA says, which may come from an earlier launch).
Status update_on_device(const UpdateRuleOptions& options, const UpdateStep& step,
                        const DeviceUpdate& update, base::DeviceStream stream);

// What update_on_device() asks of its arrays. Pure.
Status check_update(const UpdateRuleOptions& options, const DeviceUpdate& update);

}  // namespace ffdl::ps
