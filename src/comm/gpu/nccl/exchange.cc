#include "comm/gpu/nccl/exchange.h"

#include <algorithm>

#include "base/errors.h"
#include "comm/gpu/lists.h"
#include "comm/gpu/nccl/choice.h"
#include "comm/operation/collective_blocks.h"

namespace ffdl::comm {

using nccl::Code;

namespace {

Status make_room(base::DeviceSide& side, uint64_t bytes, base::SideMemory& place, uint64_t& room) {
  if (bytes <= room) return {};
  place.reset();
  room = 0;
  FFDL_ASSIGN_OR_RETURN(place, side.allocate(bytes));
  room = bytes;
  return {};
}

}  // namespace

Status NcclExchange::begin(const Request& request, NcclLink& link, const Pause& pause) {
  const Signature& signature = request.signature;
  if (signature.kind == Collective::kAllReduce) return all_reduce(request, link, pause);
  const uint64_t block = request.block_bytes();
  const uint64_t in_bytes =
      in_blocks(signature.kind, signature.root, world_.rank, world_.size()) * block;
  const uint64_t out_bytes =
      out_blocks(signature.kind, signature.root, world_.rank, world_.size()) * block;
  FFDL_ASSIGN_OR_RETURN(const Run in,
                        run_of(request.in, in_bytes, request.element(), in_copy_, in_room_));
  if (in.copied)
    FFDL_RETURN_IF_ERROR(copy_from_list(side_, stream_, request.in, 0, in_bytes, in.data));
  FFDL_ASSIGN_OR_RETURN(const Run out,
                        run_of(request.out, out_bytes, request.element(), out_copy_, out_room_));
  FFDL_RETURN_IF_ERROR(call(request, in.data, out.data, link, pause));
  if (out.copied)
    FFDL_RETURN_IF_ERROR(copy_to_list(side_, stream_, out.data, request.out, 0, out_bytes));
  return {};
}

void NcclExchange::drop_copies() {
  in_copy_.reset();
  out_copy_.reset();
  in_room_ = out_room_ = 0;
}

Result<NcclExchange::Run> NcclExchange::run_of(std::span<const Buffer> list, uint64_t bytes,
                                               uint64_t element, base::SideMemory& place,
                                               uint64_t& room) {
  if (bytes == 0) return Run{};
  if (std::byte* const run = find_run(list, 0, bytes, element)) return Run{run, false};
  FFDL_RETURN_IF_ERROR(make_room(side_, bytes, place, room));
  return Run{place.get(), true};
}

// Reduces a list part by part, so that there is no second copy of all gradients. All ranks cut at
// the same places, with or without a list.
Status NcclExchange::all_reduce(const Request& request, NcclLink& link, const Pause& pause) {
  const uint64_t element = request.element();
  FFDL_ASSIGN_OR_RETURN(const nccl::Type type, nccl_type(request.signature.dtype));
  const nccl::Op op = nccl_op(request.signature.reduce);
  const uint64_t step = stage_bytes_ / element;
  for (uint64_t at = 0; at < request.signature.block; at += step) {
    const uint64_t count = std::min(step, request.signature.block - at);
    const uint64_t bytes = count * element;
    std::byte* in = find_run(request.in, at * element, bytes, element);
    std::byte* const whole = find_run(request.out, at * element, bytes, element);
    if (in == nullptr || whole == nullptr) {
      FFDL_RETURN_IF_ERROR(make_room(side_, bytes, in_copy_, in_room_));
    }
    if (in == nullptr) {
      in = in_copy_.get();
      FFDL_RETURN_IF_ERROR(copy_from_list(side_, stream_, request.in, at * element, bytes, in));
    }
    std::byte* const to = whole != nullptr ? whole : in_copy_.get();
    FFDL_RETURN_IF_ERROR(link.settle(
        kOperate, link.library()->all_reduce(in, to, count, type, op, link.comm(), stream_),
        pause));
    if (whole == nullptr) {
      FFDL_RETURN_IF_ERROR(copy_to_list(side_, stream_, to, request.out, at * element, bytes));
    }
  }
  return {};
}

Status NcclExchange::call(const Request& request, const std::byte* in, std::byte* out,
                          NcclLink& link, const Pause& pause) {
  const Signature& signature = request.signature;
  const nccl::Functions& library = link.library().functions();
  const uint64_t bytes = request.block_bytes();
  const auto done = [&](Code code) { return link.settle(kOperate, code, pause); };
  switch (signature.kind) {
    case Collective::kReduceScatter: {
      FFDL_ASSIGN_OR_RETURN(const nccl::Type type, nccl_type(signature.dtype));
      return done(library.reduce_scatter(in, out, signature.block, type, nccl_op(signature.reduce),
                                         link.comm(), stream_));
    }
    case Collective::kReduce: {
      FFDL_ASSIGN_OR_RETURN(const nccl::Type type, nccl_type(signature.dtype));
      return done(library.reduce(in, out, signature.block, type, nccl_op(signature.reduce),
                                 signature.root, link.comm(), stream_));
    }
    case Collective::kAllGather:
      return done(library.all_gather(in, out, bytes, nccl::Type::kInt8, link.comm(), stream_));
    case Collective::kBroadcast:
      return done(library.broadcast(in, out, bytes, nccl::Type::kInt8, signature.root, link.comm(),
                                    stream_));
    case Collective::kSend:
      return done(library.send(in, bytes, nccl::Type::kInt8, signature.root, link.comm(), stream_));
    case Collective::kRecv:
      return done(
          library.recv(out, bytes, nccl::Type::kInt8, signature.root, link.comm(), stream_));
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kAllToAll:
      return move_parts(request, in, out, link, pause);
    case Collective::kAllReduce:
    case Collective::kBarrier:
      break;
  }
  return base::make_error(StatusCode::kInternal, "{}: {} is none that is called like this",
                          kOperate, describe(signature));
}

Status NcclExchange::move_parts(const Request& request, const std::byte* in, std::byte* out,
                                NcclLink& link, const Pause& pause) {
  const Signature& signature = request.signature;
  const nccl::Functions& library = link.library().functions();
  const uint64_t bytes = request.block_bytes();
  const auto parts = [&](int rank) {
    return parts_of(signature.kind, signature.root, rank, world_.size());
  };
  for (const Part& part : parts(world_.rank)) {
    if (part.source != world_.rank) continue;
    FFDL_RETURN_IF_ERROR(
        side_.copy(out + part.out_block * bytes, in + part.in_block * bytes, bytes, stream_));
  }
  Code failed = library.group_start();
  const auto add = [&](Code code) {
    if (failed == Code::kSuccess) failed = code;
  };
  for (int to = 0; to < world_.size(); ++to) {
    if (to == world_.rank) continue;
    for (const Part& part : parts(to)) {
      if (part.source != world_.rank) continue;
      add(library.send(in + part.in_block * bytes, bytes, nccl::Type::kInt8, to, link.comm(),
                       stream_));
    }
  }
  for (const Part& part : parts(world_.rank)) {
    if (part.source == world_.rank) continue;
    add(library.recv(out + part.out_block * bytes, bytes, nccl::Type::kInt8, part.source,
                     link.comm(), stream_));
  }
  const Code ended = library.group_end();  // also after a failure
  // In a group NCCL only records the calls.
  if (failed == Code::kSuccess || failed == Code::kInProgress) failed = ended;
  return link.settle(kOperate, failed, pause);
}

}  // namespace ffdl::comm
