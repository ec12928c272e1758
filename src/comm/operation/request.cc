#include "comm/operation/request.h"

#include <set>
#include <utility>

#include "base/errors.h"
#include "base/launcher_watch.h"
#include "base/limits.h"
#include "base/names.h"
#include "comm/operation/collective_blocks.h"

namespace ffdl::comm {

using base::invalid_argument;

namespace {

std::string_view name_of(Collective kind) {
  switch (kind) {
    case Collective::kAllReduce:
      return "all_reduce";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kReduce:
      return "reduce";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kGather:
      return "gather";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kScatter:
      return "scatter";
    case Collective::kAllToAll:
      return "all_to_all";
    case Collective::kBarrier:
      return "barrier";
    case Collective::kSend:
      return "send";
    case Collective::kRecv:
      return "recv";
  }
  return "unknown";
}

std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kMean:
      return "mean";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kProduct:
      return "product";
  }
  return "unknown";
}

bool is_integer(DType type) { return type <= DType::kInt64; }

Status check_blocks(std::string_view doing, std::string_view side, uint64_t elements,
                    uint64_t blocks, uint64_t block) {
  if (elements == blocks * block) return {};
  return invalid_argument("{}: {} elements {}; this rank needs {} blocks of {} elements", doing,
                          elements, side, blocks, block);
}

}  // namespace

Result<uint64_t> count_elements(std::span<const Buffer> list, DType type, std::string_view doing) {
  uint64_t count = 0;
  for (const Buffer& buffer : list) {
    if (element_bytes(buffer.dtype) == 0) {
      return invalid_argument("{}: a buffer has the dtype {}, which does not exist", doing,
                              static_cast<uint32_t>(buffer.dtype));
    }
    if (buffer.dtype != type) {
      return invalid_argument("{}: a buffer of {} beside one of {}; give one dtype per operation",
                              doing, to_string(buffer.dtype), to_string(type));
    }
    if (buffer.data == nullptr && buffer.count != 0) {
      return invalid_argument("{}: a buffer of {} elements at a null address", doing, buffer.count);
    }
    if (buffer.count > base::kElementsMax - count) {
      return invalid_argument("{}: more than {} elements", doing, base::kElementsMax);
    }
    count += buffer.count;
  }
  return count;
}

namespace {

Status check_ranks(std::string_view doing, const Operation& operation, const World& world) {
  if (operation.root < 0 || operation.root >= world.size()) {
    return invalid_argument("{}: root {} in a world of {} members; name the rank of one", doing,
                            operation.root, world.size());
  }
  if (!is_pair(operation.kind)) return {};
  if (operation.peer < 0 || operation.peer >= world.size() || operation.peer == world.rank) {
    return invalid_argument("{} at rank {}: peer {} in a world of {} members; name another member",
                            doing, world.rank, operation.peer, world.size());
  }
  return {};
}

Result<Request> check_buffers(const Operation& operation, const World& world) {
  const std::string_view doing = name_of(operation.kind);
  FFDL_RETURN_IF_ERROR(check_ranks(doing, operation, world));
  Request request;
  Signature& signature = request.signature;
  signature.kind = operation.kind;
  if (reduces(operation.kind)) signature.reduce = operation.reduce;
  if (has_root(operation.kind)) signature.root = operation.root;
  if (is_pair(operation.kind)) signature.root = operation.peer;
  request.out = operation.out;
  request.in = operation.in;
  if (operation.kind == Collective::kAllReduce && operation.in.empty()) request.in = operation.out;
  if (!request.in.empty()) {
    signature.dtype = request.in.front().dtype;
  } else if (!request.out.empty()) {
    signature.dtype = request.out.front().dtype;
  }
  if (signature.reduce == ReduceOp::kMean && is_integer(signature.dtype)) {
    return invalid_argument("{} mean of {}: integers have no mean; take the sum, or use floats",
                            doing, to_string(signature.dtype));
  }
  FFDL_ASSIGN_OR_RETURN(const uint64_t in, count_elements(request.in, signature.dtype, doing));
  FFDL_ASSIGN_OR_RETURN(const uint64_t out, count_elements(request.out, signature.dtype, doing));
  const int ranks = world.size();
  const uint64_t blocks_in = in_blocks(operation.kind, operation.root, world.rank, ranks);
  const uint64_t blocks_out = out_blocks(operation.kind, operation.root, world.rank, ranks);
  if (blocks_in > 0) {
    signature.block = in / blocks_in;
  } else if (blocks_out > 0) {
    signature.block = out / blocks_out;
  }
  FFDL_RETURN_IF_ERROR(check_blocks(doing, "to send", in, blocks_in, signature.block));
  FFDL_RETURN_IF_ERROR(check_blocks(doing, "to receive", out, blocks_out, signature.block));
  return request;
}

}  // namespace

Result<Request> check_operation(const Operation& operation, const World& world) {
  if (operation.kind > Collective::kRecv || operation.reduce > ReduceOp::kProduct) {
    return invalid_argument("run operation {} with reduction {}: these do not exist",
                            static_cast<uint32_t>(operation.kind),
                            static_cast<uint32_t>(operation.reduce));
  }
  if (is_pair(operation.kind)) {
    return base::make_error(StatusCode::kUnimplemented,
                            "{}: this back end has no such operation; use a back end that works in "
                            "the memory of one host",
                            name_of(operation.kind));
  }
  return check_buffers(operation, world);
}

Result<Request> check_pair_operation(const Operation& operation, const World& world) {
  return check_buffers(operation, world);
}

Status check_launcher(const World& world) {
  return base::launcher_watch().check("rank {} '{}' of generation {}", world.rank,
                                      world.members[static_cast<size_t>(world.rank)].id,
                                      world.generation);
}

Status reason_of(const World& world, Status status) {
  const bool may_be_older =
      status.code() == StatusCode::kPeerLost && base::launcher_watch().has_ended_now();
  return may_be_older ? check_launcher(world) : status;
}

Status aborted() {
  return base::make_error(StatusCode::kCancelled,
                          "run an operation: this communicator was aborted; connect another");
}

bool fit(const Signature& sent, const Signature& wanted) {
  return sent.dtype == wanted.dtype && sent.block == wanted.block;
}

std::string describe(const Signature& signature) {
  std::string text(name_of(signature.kind));
  if (signature.kind == Collective::kBarrier) return text;
  if (reduces(signature.kind)) text += fmt::format(" {}", name_of(signature.reduce));
  text += fmt::format(" of {} {}", signature.block, to_string(signature.dtype));
  if (has_root(signature.kind)) text += fmt::format(" with root {}", signature.root);
  if (signature.kind == Collective::kSend) text += fmt::format(" to rank {}", signature.root);
  if (signature.kind == Collective::kRecv) text += fmt::format(" from rank {}", signature.root);
  return text;
}

Status disagreement(const Signature& mine, int rank, const Signature& theirs, int other) {
  return invalid_argument("run {} at rank {}: rank {} runs {}; {}", describe(mine), rank, other,
                          describe(theirs),
                          is_pair(mine.kind) ? "both must name the same number and dtype"
                                             : "all members must run the same operation");
}

Status both_send(const Signature& mine, int rank) {
  return base::make_error(StatusCode::kTimeout,
                          "run {} at rank {}: by the deadline rank {} was sending to rank {}, too; "
                          "let one of the two receive first",
                          describe(mine), rank, mine.root, rank);
}

Status check_world(const World& world) {
  if (world.members.empty() || world.members.size() > base::kRanksMax) {
    return invalid_argument("connect world {}: {} members; a communicator has 1 to {}",
                            world.generation, world.members.size(), base::kRanksMax);
  }
  if (world.rank < 0 || world.rank >= world.size()) {
    return invalid_argument("connect world {}: rank {} of {} members; only members can connect",
                            world.generation, world.rank, world.size());
  }
  if (!world.job.empty() && !base::is_name(world.job)) {
    return invalid_argument(
        "connect world {}: job '{}' is not a name; use 1 to {} letters, digits and signs except "
        "'/'",
        world.generation, world.job, base::kMemberIdMax);
  }
  std::set<std::string_view> ids;
  for (const Member& member : world.members) {
    if (!ids.insert(member.id).second) {
      return invalid_argument("connect world {}: two members '{}'; ids are unique",
                              world.generation, member.id);
    }
  }
  return {};
}

}  // namespace ffdl::comm
