#pragma once

#include <cstdint>
#include <variant>

#include "base/device.h"
#include "base/host_device.h"
#include "base/mix.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

// The arithmetic of gradients in a GPU's memory, each kind the twin of what the processor does with
// those in the host's. cuda/ runs it; in a build without CUDA cuda/no_cuda.cc says so.
// Arrays are of floating dtypes, lie in memory that the GPU reaches, at any address, and have any
// number of elements. 16-bit ones are computed with as float32 and rounded once.
namespace ffdl::base {

// Each element times `factor`. What was NaN or infinite becomes 0 where `factor` is 0.
// Its twin: elastic/weigh.h.
struct ScaleArray {
  Buffer array{};
  double factor = 1;
};

// sum[i] += weight * values[i], or sum[i] = values[i] where it is the first. `sum` is of float64
// where the values are, of float32 otherwise. Its twins: elastic/gradient_sum.h, and the sum of two
// in comm/tree_reduce.h.
struct AddArray {
  void* sum = nullptr;
  Buffer values{};
  double weight = 1;
  bool is_first = false;
};

// out[i] = sum[i] / divisor, `sum` as above: it may be the memory of `out`, if of its dtype. Its
// twins: as above.
struct DivideArray {
  Buffer out{};
  const void* sum = nullptr;
  double divisor = 1;
};

// Sums of squares of some blocks of an array, or of its difference to another one, in double. Of
// each block that is picked there are kNormLanes sums, of the elements whose numbers in it leave
// the same rest. Its twin: elastic/squared_norm.h.
struct SquareArray {
  Buffer values{};
  const void* subtracted = nullptr;  // null: nothing is; else as `values`
  uint64_t stride = 1;               // as pick_block()
  uint64_t round = 0;                // the same
  uint64_t first_pick = 0;
  uint64_t picks = 0;  // from that one on
  double* lanes = nullptr;
};

using ArrayWork = std::variant<ScaleArray, AddArray, DivideArray, SquareArray>;

inline constexpr uint64_t kNormBlock = 1024;  // elements
inline constexpr uint64_t kNormLanes = 8;

FFDL_HOST_DEVICE constexpr uint64_t norm_blocks(uint64_t elements) {
  return elements / kNormBlock + (elements % kNormBlock != 0 ? 1 : 0);
}
// How many of them are picked, one in `stride`.
FFDL_HOST_DEVICE constexpr uint64_t norm_picks(uint64_t blocks, uint64_t stride) {
  return blocks / stride + (blocks % stride != 0 ? 1 : 0);
}

struct BlockPick {
  uint64_t block = 0;
  uint64_t many = 0;  // for so many blocks it stands
};

// Of the `stride` blocks from pick * stride on, or as many as there are of `blocks`, one that
// `round` draws.
FFDL_HOST_DEVICE constexpr BlockPick pick_block(uint64_t blocks, uint64_t stride, uint64_t round,
                                                uint64_t pick) {
  const uint64_t first = pick * stride;
  const uint64_t many = stride < blocks - first ? stride : blocks - first;
  return {first + mix(mix(round) + first) % many, many};
}

// Adds it to `stream` and returns: arrays must stay until the stream has done it. The bits are
// those of the twin, but for the payload of NaN.
// Threads: any.
// Errors: kInvalidArgument (check_array_work), kUnimplemented (no GPU, driver or kernel for it; a
// build without CUDA), kInternal (what CUDA says, which may come from an earlier launch).
Status run_on_device(const ArrayWork& work, DeviceStream stream);

// What run_on_device() asks of its arrays. Pure.
Status check_array_work(const ArrayWork& work);

}  // namespace ffdl::base
