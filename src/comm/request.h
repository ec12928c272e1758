#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ffdl/communicator.h"

// An operation after its check, and what of it the members must agree on.
namespace ffdl::comm {

// How errors of operations begin.
inline constexpr std::string_view kOperate = "run an operation";

// Fixed width, as it is compared in shared memory.
struct Signature {
  Collective kind = Collective::kBarrier;
  ReduceOp reduce = ReduceOp::kSum;  // kSum where nothing is reduced
  int32_t root = 0;                  // 0 where there is none; of send and recv: the peer
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

// Of collectives: a back end that has send and recv asks for them by name.
// Errors: kInvalidArgument, kUnimplemented (send or recv).
Result<Request> check_operation(const Operation& operation, const World& world);
// Of send and recv.
// Errors: kInvalidArgument.
Result<Request> check_pair_operation(const Operation& operation, const World& world);
// Whether one of the two is a send and the other the recv for it.
bool fit(const Signature& sent, const Signature& wanted);

// Adds up the elements of a list, whose buffers must all be of `type`. Errors: kInvalidArgument.
Result<uint64_t> count_elements(std::span<const Buffer> list, DType type, std::string_view doing);

// "all_reduce sum of 10 float32", "broadcast of 3 int8 with root 2", "send of 1 int8 to rank 2".
std::string describe(const Signature& signature);

// The failure of a member that is to run `mine` while rank `other` is to run `theirs`.
Status disagreement(const Signature& mine, int rank, const Signature& theirs, int other);

// The time-out of a send whose receiver sends, too.
Status both_send(const Signature& mine, int rank);

// The world can have a communicator. Errors: kInvalidArgument.
Status check_world(const World& world);

}  // namespace ffdl::comm
