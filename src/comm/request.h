#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ffdl/communicator.h"

// An operation after its check, and what of it the members must agree on.
namespace ffdl::comm {

// Fixed width, as it is compared in shared memory.
struct Signature {
  Collective kind = Collective::kBarrier;
  ReduceOp reduce = ReduceOp::kSum;  // kSum where nothing is reduced
  int32_t root = 0;                  // 0 where there is none
  DType dtype = DType::kFloat32;
  uint64_t block = 0;  // elements of one block

  bool operator==(const Signature&) const = default;
};
static_assert(sizeof(Signature) == 24);

struct Request {
  Signature signature{};
  std::span<const Buffer> in{};
  std::span<const Buffer> out{};

  uint64_t element() const { return element_bytes(signature.dtype); }
  uint64_t block_bytes() const { return signature.block * element(); }
};

// Errors: kInvalidArgument.
Result<Request> check_operation(const Operation& operation, const World& world);

// Adds up the elements of a list, whose buffers must all be of `type`. Errors: kInvalidArgument.
Result<uint64_t> count_elements(std::span<const Buffer> list, DType type, std::string_view doing);

// "all_reduce sum of 10 float32", "broadcast of 3 int8 with root 2".
std::string describe(const Signature& signature);

// The failure of a member that is to run `mine` while rank `other` is to run `theirs`.
Status disagreement(const Signature& mine, int rank, const Signature& theirs, int other);

// The world can have a communicator. Errors: kInvalidArgument.
Status check_world(const World& world);

}  // namespace ffdl::comm
