#pragma once

#include <cstdint>
#include <span>

#include "base/device.h"
#include "ffdl/operation.h"
#include "ffdl/types.h"

// The reduction of arrays in a GPU's memory: the twin of tree_reduce.h. cuda/ defines it; in a
// build without CUDA cuda/no_cuda.cc does.
namespace ffdl::comm {

// Inputs of one reduction: as many as a host has GPUs most often.
inline constexpr uint32_t kDeviceInputsMax = 8;

// Adds out[i] = the reduction of inputs[0][i], inputs[1][i], .. to `stream` and returns: arrays
// must stay until the stream has done it. All have `count` elements of `type`, any number of them,
// lie in memory that the GPU reaches and are aligned to 16 bytes. `out` may be one of the inputs,
// or overlap none. The bits are those of tree_reduce(), but for the payload of NaN.
// Threads: any, each with its own streams.
// Errors: kInvalidArgument (check_reduce), kUnimplemented (no GPU, driver or kernel for it; a build
// without CUDA), kInternal (what CUDA says, which may come from an earlier launch).
Status reduce_on_device(ReduceOp op, DType type, std::span<const void* const> inputs, void* out,
                        uint64_t count, base::DeviceStream stream);

// What reduce_on_device() asks of its arguments. Pure.
Status check_reduce(ReduceOp op, DType type, std::span<const void* const> inputs, const void* out,
                    uint64_t count);

}  // namespace ffdl::comm
