#pragma once

#include <cstdint>
#include <span>

#include "ffdl/types.h"

namespace ffdl {

enum class ReduceOp : uint32_t {
  kSum,   // integers wrap around
  kMean,  // floating point only
  kMin,   // NaN if any is NaN
  kMax,   // NaN if any is NaN
  kProduct,
};

enum class Collective : uint32_t {
  kAllReduce,      // out of all: the reduction of all in
  kReduceScatter,  // out of rank r: block r of the reduction of all in
  kReduce,         // out of the root: the reduction of all in
  kAllGather,      // out of all: the in of rank 0, 1, ..
  kGather,         // out of the root: the in of rank 0, 1, ..
  kBroadcast,      // out of all: the in of the root
  kScatter,        // out of rank r: block r of the root's in
  kAllToAll,       // out of rank r: block r of the in of rank 0, 1, ..
  kBarrier,        // no buffers; ok when all have called
  kSend,           // of two members alone: in of the one, to the peer
  kRecv,           // of two members alone: out of the other, from the peer
};

// What one member asks for; all members must agree on it, but for their buffers' addresses, and for
// send and recv, in which nobody but the two takes part. A list
// of buffers counts as the concatenation of their elements, cut as each member likes, so that many
// tensors take part in one operation without a copy; all of one DType. Blocks are of equal size.
struct Operation {
  Collective kind = Collective::kBarrier;
  std::span<const Buffer> in{};   // empty where this member gives nothing, or all_reduce in place
  std::span<const Buffer> out{};  // empty where this member gets nothing
  ReduceOp reduce = ReduceOp::kSum;
  int root = 0;
  int peer = 0;  // of send and recv: the other member
};

}  // namespace ffdl
