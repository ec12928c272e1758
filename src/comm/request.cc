#include "comm/request.h"

#include <set>

#include "base/errors.h"
#include "base/limits.h"
#include "comm/parts.h"

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
  return invalid_argument("{}: {} elements {}; this rank has {} blocks of {} there", doing,
                          elements, side, blocks, block);
}

}  // namespace

Result<uint64_t> count_elements(std::span<const Buffer> list, DType type, std::string_view doing) {
  uint64_t count = 0;
  for (const Buffer& buffer : list) {
    if (element_bytes(buffer.dtype) == 0) {
      return invalid_argument("{}: a buffer of dtype {}, which is none", doing,
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

Result<Request> check_operation(const Operation& operation, const World& world) {
  const std::string_view doing = name_of(operation.kind);
  if (operation.kind > Collective::kBarrier || operation.reduce > ReduceOp::kProduct) {
    return invalid_argument("run operation {} with reduction {}: there are no such ones",
                            static_cast<uint32_t>(operation.kind),
                            static_cast<uint32_t>(operation.reduce));
  }
  if (operation.root < 0 || operation.root >= world.size()) {
    return invalid_argument("{}: root {} in a world of {} members", doing, operation.root,
                            world.size());
  }
  Request request;
  Signature& signature = request.signature;
  signature.kind = operation.kind;
  if (reduces(operation.kind)) signature.reduce = operation.reduce;
  if (has_root(operation.kind)) signature.root = operation.root;
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
  FFDL_RETURN_IF_ERROR(check_blocks(doing, "to give", in, blocks_in, signature.block));
  FFDL_RETURN_IF_ERROR(check_blocks(doing, "to get", out, blocks_out, signature.block));
  return request;
}

std::string describe(const Signature& signature) {
  std::string text(name_of(signature.kind));
  if (signature.kind == Collective::kBarrier) return text;
  if (reduces(signature.kind)) text += fmt::format(" {}", name_of(signature.reduce));
  text += fmt::format(" of {} {}", signature.block, to_string(signature.dtype));
  if (has_root(signature.kind)) text += fmt::format(" with root {}", signature.root);
  return text;
}

Status disagreement(const Signature& mine, int rank, const Signature& theirs, int other) {
  return invalid_argument(
      "run {} at rank {}: rank {} runs {}; all members must run the same operation", describe(mine),
      rank, other, describe(theirs));
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
