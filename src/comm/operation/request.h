#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ffdl/comm/communicator.h"

// Defines a checked operation, and the part of it that the members must agree on.
namespace ffdl::comm {

// The beginning of all errors of operations.
inline constexpr std::string_view kOperate = "run an operation";

// Has a fixed width, as it is compared in shared memory.
struct Signature {
  Collective kind = Collective::kBarrier;
  ReduceOp reduce = ReduceOp::kSum;  // kSum if nothing is reduced
  int32_t root = 0;                  // 0 if there is none; for send and recv the peer
  DType dtype = DType::kFloat32;
  uint64_t block = 0;  // elements of one block

  bool operator==(const Signature&) const = default;
};
static_assert(sizeof(Signature) == 24, "a change needs another base::kProtocolVersion");

struct Request {
  Signature signature{};
  std::span<const Buffer> in{};
  std::span<const Buffer> out{};

  uint64_t element() const { return element_bytes(signature.dtype); }
  uint64_t block_bytes() const { return signature.block * element(); }
};

// Checks a collective. A back end with send and recv uses check_pair_operation() for those.
// Errors: kInvalidArgument, kUnimplemented (send or recv).
Result<Request> check_operation(const Operation& operation, const World& world);
// Checks a send or recv. Errors: kInvalidArgument.
Result<Request> check_pair_operation(const Operation& operation, const World& world);
// Checks that the launcher of this process still runs. Called at the start of each operation: an
// operation whose members are all there does not wait, and so checks nothing else.
// Errors: kCancelled.
Status check_launcher(const World& world);
// Returns the reason for the failure of an operation: the end of this process's launcher, if
// `status` reports a lost member, which may have ended for that. Otherwise returns `status`.
Status reason_of(const World& world, Status status);
// Returns the status of an operation at a rank that was aborted without a reason.
Status aborted();

// Returns whether a send and a recv have the same dtype and number of elements.
bool fit(const Signature& sent, const Signature& wanted);

// Adds up the elements of a list, whose buffers must all be of `type`. Errors: kInvalidArgument.
Result<uint64_t> count_elements(std::span<const Buffer> list, DType type, std::string_view doing);

// Returns for example "all_reduce sum of 10 float32", "broadcast of 3 int8 with root 2", or "send
// of 1 int8 to rank 2".
std::string describe(const Signature& signature);

// Returns the failure of a member that has to run `mine` while rank `other` has to run `theirs`.
Status disagreement(const Signature& mine, int rank, const Signature& theirs, int other);

// Returns the time-out of a send whose receiver sends, too.
Status both_send(const Signature& mine, int rank);

// Checks that the world can have a communicator. Errors: kInvalidArgument.
Status check_world(const World& world);

}  // namespace ffdl::comm
