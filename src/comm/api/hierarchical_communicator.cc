#include "comm/api/hierarchical_communicator.h"

#include <algorithm>
#include <bit>

#include "base/errors.h"
#include "base/half_kernels.h"
#include "comm/operation/buffer_pieces.h"
#include "comm/reduce/tree_reduce.h"

namespace ffdl::comm {

bool same_subtrees(std::span<const int> hosts) {
  const auto ranks = static_cast<size_t>(std::ranges::count(hosts, hosts.front()));
  if (!std::has_single_bit(ranks)) return false;
  if (hosts.size() % ranks != 0) return false;  // NOLINT: ranks is not zero, which has no bit
  for (size_t first = 0; first < hosts.size(); first += ranks) {
    const auto host = hosts.subspan(first, ranks);
    if (std::ranges::count(host, host.front()) != static_cast<long>(ranks)) return false;
    if (std::ranges::count(hosts, host.front()) != static_cast<long>(ranks)) return false;
  }
  return true;
}

HierarchicalCommunicator::HierarchicalCommunicator(const World& world, std::unique_ptr<Links> links,
                                                   std::unique_ptr<Communicator> inside)
    : LinkedCommunicator(world, std::move(links), Backend::kHierarchical),
      inside_(std::move(inside)) {
  const int ranks = inside_->world().size();
  for (int rank = world.rank % ranks; rank < world.size(); rank += ranks) across_.push_back(rank);
}

HierarchicalCommunicator::~HierarchicalCommunicator() {
  HierarchicalCommunicator::stop();
  end(Status(StatusCode::kCancelled, "its communicator was closed"));
}

void HierarchicalCommunicator::stop() {
  LinkedCommunicator::stop();
  inside_->abort({});
}

Status HierarchicalCommunicator::run_large(const Request& request, Time deadline) {
  if (request.signature.kind != Collective::kAllReduce) {
    return LinkedCommunicator::run_large(request, deadline);
  }
  return all_reduce(request, deadline)
      .with_context(fmt::format("run two levels at rank {}", world().rank));
}

// Relies on hosts with equally many, consecutive ranks.
Status HierarchicalCommunicator::run_pair(const Request& request, Time deadline) {
  const int ranks = inside_->world().size();
  const int peer = request.signature.root;
  if (peer / ranks != world().rank / ranks) return LinkedCommunicator::run_pair(request, deadline);
  return inside_
      ->run({.kind = request.signature.kind,
             .in = request.in,
             .out = request.out,
             .peer = peer % ranks},
            deadline)
      .with_context(fmt::format("run inside the host of rank {}", world().rank));
}

// Sends unrounded values: float16 and bfloat16 travel as float32, and the mean is taken last.
Status HierarchicalCommunicator::all_reduce(const Request& request, Time deadline) {
  const Signature& signature = request.signature;
  const auto ranks = static_cast<uint64_t>(inside_->world().size());
  const uint64_t count = (signature.block + ranks - 1) / ranks;
  const uint64_t lacking = ranks * count - signature.block;
  const DType type = base::is_half(signature.dtype) ? DType::kFloat32 : signature.dtype;
  const ReduceOp op = signature.reduce == ReduceOp::kMean ? ReduceOp::kSum : signature.reduce;
  filler_.resize(lacking * element_bytes(type));
  const Buffer piece = {place_of_piece(request, count, type), count, type};
  std::vector<Buffer> in(request.in.begin(), request.in.end());
  if (base::is_half(signature.dtype)) in = {widened(request)};
  in.push_back({filler_.data(), lacking, type});
  FFDL_RETURN_IF_ERROR(inside_->run({Collective::kReduceScatter, in, {&piece, 1}, op}, deadline));

  const Request across = {
      .signature = {.kind = Collective::kAllReduce, .reduce = op, .dtype = type, .block = count},
      .in = {&piece, 1},
      .out = {&piece, 1}};
  FFDL_RETURN_IF_ERROR(exchange().add_up(across, across_, deadline));
  if (signature.reduce == ReduceOp::kMean) divide(piece, world().size());
  Buffer own = {piece.data, count, signature.dtype};
  if (base::is_half(signature.dtype)) {
    base::narrow(signature.dtype, static_cast<const float*>(piece.data), narrow_.data(), count);
    own.data = narrow_.data();
  }
  std::vector<Buffer> out(request.out.begin(), request.out.end());
  out.push_back({filler_.data(), lacking, signature.dtype});
  return inside_->run({Collective::kAllGather, {&own, 1}, out}, deadline);
}

// Returns the place in the output if type and layout allow it, and `piece_` otherwise.
void* HierarchicalCommunicator::place_of_piece(const Request& request, uint64_t count, DType type) {
  const uint64_t bytes = count * element_bytes(type);
  const uint64_t begin = static_cast<uint64_t>(inside_->world().rank) * bytes;
  if (type == request.signature.dtype && begin + bytes <= request.block_bytes()) {
    std::byte* const run = find_run(request.out, begin, bytes, element_bytes(type));
    if (run != nullptr) return run;
  }
  piece_.resize(bytes);
  return piece_.data();
}

Buffer HierarchicalCommunicator::widened(const Request& request) {
  const uint64_t count = request.signature.block;
  narrow_.resize(count);
  copy_from_list(request.in, 0, count * sizeof(uint16_t),
                 reinterpret_cast<std::byte*>(narrow_.data()));
  wide_.resize(count);
  base::widen(request.signature.dtype, narrow_.data(), wide_.data(), count);
  return {wide_.data(), count, DType::kFloat32};
}

}  // namespace ffdl::comm
