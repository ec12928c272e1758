#pragma once

#include <cstdint>
#include <variant>

#include "base/device.h"
#include "base/hash_mix.h"
#include "base/host_device.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

// Gradient arithmetic in a GPU's memory. Each kind of work equals one that the processor does in
// the host's memory. cuda/ runs it; in a build without CUDA, cuda/no_cuda.cc returns an error.
// Arrays have floating dtypes, any address that the GPU reaches, and any number of elements. 16-bit
// elements are computed as float32 and rounded once.
namespace ffdl::base {

// Multiplies each element by `factor`. If `factor` is 0, NaN and infinite elements become 0 too.
// The host's version: elastic/step/scale.h.
struct ScaleArray {
  Buffer array{};
  double factor = 1;
};

// Computes sum[i] += weight * values[i], or sum[i] = values[i] if `is_first`. `sum` is float64 for
// float64 values, float32 otherwise. The host's versions: elastic/step/gradient_sum.h, and the sum
// of two inputs in comm/reduce/tree_reduce.h.
struct AddArray {
  void* sum = nullptr;
  Buffer values{};
  double weight = 1;
  bool is_first = false;
};

// Computes out[i] = sum[i] / divisor. `sum` has the dtype that AddArray uses. It may be the memory
// of `out` if the dtypes are equal. The host's versions are those of AddArray.
struct DivideArray {
  Buffer out{};
  const void* sum = nullptr;
  double divisor = 1;
};

// Computes sums of squares of some blocks of an array, or of its difference to another array, in
// double. Each picked block has kNormLanes sums. Lane k sums the elements whose index in the block
// is k modulo kNormLanes. The host's version: elastic/step/squared_norm.h.
struct SquareArray {
  Buffer values{};
  const void* subtracted = nullptr;  // null, or an array like `values`
  uint64_t stride = 1;               // see pick_block()
  uint64_t round = 0;                // see pick_block()
  uint64_t first_pick = 0;
  uint64_t picks = 0;  // number of picks from first_pick on
  double* lanes = nullptr;
};

using ArrayWork = std::variant<ScaleArray, AddArray, DivideArray, SquareArray>;

inline constexpr uint64_t kNormBlock = 1024;  // elements
inline constexpr uint64_t kNormLanes = 8;

FFDL_HOST_DEVICE constexpr uint64_t norm_blocks(uint64_t elements) {
  return elements / kNormBlock + (elements % kNormBlock != 0 ? 1 : 0);
}
// Returns the number of picked blocks, one in `stride`.
FFDL_HOST_DEVICE constexpr uint64_t norm_picks(uint64_t blocks, uint64_t stride) {
  return blocks / stride + (blocks % stride != 0 ? 1 : 0);
}

struct BlockPick {
  uint64_t block = 0;
  uint64_t many = 0;  // number of blocks that this one represents
};

// Returns one of the `stride` blocks from pick * stride on, drawn by `round`. The last pick has the
// blocks that remain.
FFDL_HOST_DEVICE constexpr BlockPick pick_block(uint64_t blocks, uint64_t stride, uint64_t round,
                                                uint64_t pick) {
  const uint64_t first = pick * stride;
  const uint64_t many = stride < blocks - first ? stride : blocks - first;
  return {first + mix(mix(round) + first) % many, many};
}

// Enqueues the work on `stream` and returns. Arrays must stay valid until the stream has done it.
// The bits equal those of the host's version, except for the payload of NaN.
// Threads: any.
// Errors: kInvalidArgument (check_array_work), kUnimplemented (no GPU, driver or kernel for it; a
// build without CUDA), kInternal (CUDA's error, which may belong to an earlier launch).
Status run_on_device(const ArrayWork& work, DeviceStream stream);

// Checks what run_on_device() requires of its arrays. Pure.
Status check_array_work(const ArrayWork& work);

}  // namespace ffdl::base
