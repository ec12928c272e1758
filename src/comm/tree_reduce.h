#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/leaf_tree.h"
#include "ffdl/communicator.h"

// The one place where members' values meet. docs/decisions/0007-collectives.md says why a tree.
namespace ffdl::comm {

// out[i] = the reduction of inputs[0][i], inputs[1][i], .. along the fixed tree over their indices:
// neighbours first, level by level; a missing right half is skipped. Integers are reduced as int64
// and float16, bfloat16 as float32, then narrowed once.
// All addresses are aligned for `type`. `out` may be one of the inputs, or overlap none.
void tree_reduce(ReduceOp op, DType type, std::span<const std::byte* const> inputs, std::byte* out,
                 uint64_t count);

// The same along the tree over `leaves` leaves, where inputs[i] is the value of nodes[i] already.
// The nodes stand from left to right and are together all of the tree. A mean is over the leaves.
void tree_reduce(ReduceOp op, DType type, std::span<const std::byte* const> inputs,
                 std::span<const Subtree> nodes, uint64_t leaves, std::byte* out, uint64_t count);

// elements[i] /= divisor, of float32 or float64: the end of a mean whose sum was taken before.
void divide(const Buffer& elements, double divisor);

}  // namespace ffdl::comm
