#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/reduce/leaf_tree.h"
#include "ffdl/comm/communicator.h"

// Combines the values of members, in this one place. docs/decisions/0007-collectives.md explains
// why in a tree.
namespace ffdl::comm {

// Computes out[i] = the reduction of inputs[0][i], inputs[1][i], .. along the fixed tree over their
// indices: neighbours first, level by level. A missing right half is skipped. Integers are reduced
// as int64, float16 and bfloat16 as float32, and then narrowed once.
// All addresses are aligned for `type`. `out` may be one of the inputs, or overlap none.
void tree_reduce(ReduceOp op, DType type, std::span<const std::byte* const> inputs, std::byte* out,
                 uint64_t count);

// Reduces along the tree over `leaves` leaves, where inputs[i] is the value of nodes[i]. The nodes
// are ordered from left to right, and together are all of the tree. A mean is over the leaves.
void tree_reduce(ReduceOp op, DType type, std::span<const std::byte* const> inputs,
                 std::span<const Subtree> nodes, uint64_t leaves, std::byte* out, uint64_t count);

// Divides elements of float32 or float64 by divisor: the end of a mean after its sum.
void divide(const Buffer& elements, double divisor);

}  // namespace ffdl::comm
