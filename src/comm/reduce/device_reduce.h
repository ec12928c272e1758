#pragma once

#include <cstdint>
#include <span>

#include "base/device.h"
#include "ffdl/comm/communicator.h"
#include "ffdl/types.h"

// Reduces arrays in a GPU's memory: the twin of tree_reduce.h. cuda/ defines it, or cuda/no_cuda.cc
// in a build without CUDA.
namespace ffdl::comm {

// The most inputs of one reduction: the usual number of GPUs of a host.
inline constexpr uint32_t kDeviceInputsMax = 8;

// Queues out[i] = the reduction of inputs[0][i], inputs[1][i], .. on `stream` and returns. The
// arrays must stay valid until the stream has done it. All have `count` elements of `type`, any
// number of them. They are in memory that the GPU reaches and aligned to 16 bytes. `out` may be one
// of the inputs, or overlap none. The bits are those of tree_reduce(), except the payload of NaN.
// Threads: any, each with its own streams.
// Errors: kInvalidArgument (check_reduce), kUnimplemented (no GPU, driver or kernel for it; a build
//         without CUDA), kInternal (CUDA's error, which may come from an earlier launch).
Status reduce_on_device(ReduceOp op, DType type, std::span<const void* const> inputs, void* out,
                        uint64_t count, base::DeviceStream stream);

// Checks the arguments of reduce_on_device(). Pure.
Status check_reduce(ReduceOp op, DType type, std::span<const void* const> inputs, const void* out,
                    uint64_t count);

}  // namespace ffdl::comm
