#include "comm/network/exchange.h"

#include <algorithm>
#include <numeric>

#include "base/limits.h"
#include "comm/operation/buffer_pieces.h"
#include "comm/operation/collective_blocks.h"
#include "comm/reduce/tree_reduce.h"

namespace ffdl::comm {
namespace {

// Returns the bytes in place if they are contiguous; else copies them to `room`.
const std::byte* run_or_copy(std::span<const Buffer> list, uint64_t begin, uint64_t bytes,
                             uint64_t alignment, std::byte* room) {
  if (const std::byte* run = find_run(list, begin, bytes, alignment)) return run;
  copy_from_list(list, begin, bytes, room);
  return room;
}

bool overlap(std::span<const Buffer> a, std::span<const Buffer> b) {
  const auto end = [](const Buffer& buffer) {
    return static_cast<std::byte*>(buffer.data) + buffer.count * element_bytes(buffer.dtype);
  };
  return std::ranges::any_of(a, [&](const Buffer& x) {
    return std::ranges::any_of(b, [&](const Buffer& y) {
      return static_cast<std::byte*>(x.data) < end(y) && static_cast<std::byte*>(y.data) < end(x);
    });
  });
}

template <class T>
void grow(std::vector<T>& room, uint64_t count) {
  if (room.size() < count) room.resize(count);
}

}  // namespace

LinkExchange::LinkExchange(World world, Links& links)
    : world_(std::move(world)),
      links_(links),
      everybody_(world_.members.size()),
      from_(world_.members.size()) {
  std::iota(everybody_.begin(), everybody_.end(), 0);
}

void LinkExchange::finish_small(const Request& request, const LinkAgreement& agreement) {
  const Signature& signature = request.signature;
  uint64_t block = 0;
  for (int rank = 0; rank < world_.size(); ++rank) {
    const bool given = gives(signature, rank, world_.rank, world_.size(), block);
    const std::byte*& from = from_[static_cast<size_t>(rank)];
    from = given ? agreement.contents(rank) : nullptr;
    if (!given || rank != world_.rank) continue;
    grow(own_, request.block_bytes());
    copy_from_list(request.in, block * request.block_bytes(), request.block_bytes(), own_.data());
    from = own_.data();
  }
  assemble(request, 0, signature.block, from_);
}

Status LinkExchange::finish_large(const Request& request, Time deadline) {
  const Collective kind = request.signature.kind;
  if (kind == Collective::kAllReduce || kind == Collective::kReduce) {
    return add_up(request, everybody_, deadline);
  }
  return exchange(request, deadline);
}

void LinkExchange::assemble(const Request& request, uint64_t begin, uint64_t count,
                            std::span<const std::byte* const> from) {
  const Signature& signature = request.signature;
  const uint64_t bytes = count * request.element();
  if (bytes == 0) return;
  for (const Part& part : parts_of(signature.kind, signature.root, world_.rank, world_.size())) {
    const uint64_t at = (part.out_block * signature.block + begin) * request.element();
    if (part.source != kReduced) {
      const std::byte* const source = from[static_cast<size_t>(part.source)];
      if (source != nullptr) copy_to_list(source, request.out, at, bytes);
      continue;
    }
    std::byte* const run = find_run(request.out, at, bytes, request.element());
    if (run == nullptr) grow(reduced_, bytes);
    std::byte* const to = run != nullptr ? run : reduced_.data();
    tree_reduce(signature.reduce, signature.dtype, from, to, count);
    if (run == nullptr) copy_to_list(to, request.out, at, bytes);
  }
}

// Keeps two chunks in transfer.
Status LinkExchange::exchange(const Request& request, Time deadline) {
  const uint64_t room = base::kLinkPieceBytes / request.element();
  const uint64_t chunks = (request.signature.block + room - 1) / room;
  const bool straight = !overlap(request.in, request.out);
  for (uint64_t t = 0; t <= chunks; ++t) {
    if (t < chunks) {
      Chunk& chunk = chunks_[t % 2];
      chunk.begin = t * room;
      chunk.count = std::min(room, request.signature.block - chunk.begin);
      FFDL_RETURN_IF_ERROR(begin_exchange(request, straight, chunk));
    }
    if (t >= 1) FFDL_RETURN_IF_ERROR(end_exchange(request, chunks_[(t - 1) % 2], deadline));
  }
  return {};
}

// Starts a chunk. `straight`: received data may go to its place while this rank's input is being
// sent.
Status LinkExchange::begin_exchange(const Request& request, bool straight, Chunk& chunk) {
  const Signature& signature = request.signature;
  const int ranks = world_.size();
  const uint64_t bytes = chunk.count * request.element();
  const auto at = [&](uint64_t block) {
    return (block * signature.block + chunk.begin) * request.element();
  };
  grow(chunk.received, bytes * world_.members.size());
  grow(chunk.given, bytes * world_.members.size());
  chunk.from.assign(world_.members.size(), nullptr);
  for (const Part& part : parts_of(signature.kind, signature.root, world_.rank, ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == world_.rank || (part.source != rank && part.source != kReduced)) continue;
      const bool reduced = part.source == kReduced;
      std::byte* const run =
          straight && !reduced ? find_run(request.out, at(part.out_block), bytes, 1) : nullptr;
      std::byte* const room = chunk.received.data() + static_cast<uint64_t>(rank) * bytes;
      if (run == nullptr) chunk.from[static_cast<size_t>(rank)] = room;
      FFDL_RETURN_IF_ERROR(receive(run != nullptr ? run : room, bytes, rank, Tag::kInput, chunk));
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    uint64_t block = 0;
    if (!gives(signature, world_.rank, rank, ranks, block)) continue;
    std::byte* const room = chunk.given.data() + static_cast<uint64_t>(rank) * bytes;
    const bool own = rank == world_.rank;
    // This rank's block is read while the output is being written.
    if (own && !straight) copy_from_list(request.in, at(block), bytes, room);
    const std::byte* const data =
        own && !straight ? room
                         : run_or_copy(request.in, at(block), bytes, request.element(), room);
    if (own) chunk.from[static_cast<size_t>(rank)] = data;
    if (!own) FFDL_RETURN_IF_ERROR(send(data, bytes, rank, Tag::kInput, chunk));
  }
  return {};
}

Status LinkExchange::end_exchange(const Request& request, Chunk& chunk, Time deadline) {
  FFDL_RETURN_IF_ERROR(wait(chunk.in, deadline));
  FFDL_RETURN_IF_ERROR(wait(chunk.out, deadline));
  assemble(request, chunk.begin, chunk.count, chunk.from);
  return {};
}

// Keeps three chunks in transfer: the inputs of one arrive, the previous one is reduced, and the
// results of the one before that are sent.
Status LinkExchange::add_up(const Request& request, std::span<const int> group, Time deadline) {
  const uint64_t all = request.signature.block;
  const uint64_t room = group.size() * (base::kLinkPieceBytes / request.element());
  const uint64_t chunks = (all + room - 1) / room;
  for (uint64_t t = 0; t < chunks + 2; ++t) {
    if (t < chunks) {
      Chunk& chunk = chunks_[t % 3];
      chunk.begin = t * room;
      chunk.count = std::min(room, all - chunk.begin);
      FFDL_RETURN_IF_ERROR(give_inputs(request, group, chunk));
    }
    if (t >= 1 && t <= chunks) {
      FFDL_RETURN_IF_ERROR(reduce_own(request, group, chunks_[(t - 1) % 3], deadline));
    }
    if (t >= 2) {
      FFDL_RETURN_IF_ERROR(take_results(request, chunks_[(t - 2) % 3], deadline));
    }
  }
  return {};
}

Status LinkExchange::give_inputs(const Request& request, std::span<const int> group, Chunk& chunk) {
  const uint64_t element = request.element();
  const auto ranks = static_cast<int>(group.size());
  const uint64_t bytes = chunk.count * element;
  grow(chunk.given, bytes);
  chunk.input = run_or_copy(request.in, chunk.begin * element, bytes, element, chunk.given.data());
  chunk.output = find_run(request.out, chunk.begin * element, bytes, element);
  if (chunk.output == nullptr) grow(chunk.results, bytes);
  const auto index = static_cast<int>(std::ranges::find(group, world_.rank) - group.begin());
  chunk.own = piece_of(index, ranks, chunk.count, element);
  const uint64_t own_bytes = (chunk.own.end - chunk.own.begin) * element;
  grow(chunk.received, own_bytes * group.size());
  chunk.from.assign(group.size(), nullptr);
  for (int i = 0; i < ranks; ++i) {
    const auto at = static_cast<size_t>(i);
    if (i == index) {
      chunk.from[at] = chunk.input + chunk.own.begin * element;
      continue;
    }
    std::byte* const room = chunk.received.data() + at * own_bytes;
    chunk.from[at] = room;
    FFDL_RETURN_IF_ERROR(receive(room, own_bytes, group[at], Tag::kInput, chunk));
    const Piece piece = piece_of(i, ranks, chunk.count, element);
    FFDL_RETURN_IF_ERROR(send(chunk.input + piece.begin * element,
                              (piece.end - piece.begin) * element, group[at], Tag::kInput, chunk));
  }
  return {};
}

// May overwrite an input that was sent from the same memory: the piece's owner has it by then.
Status LinkExchange::reduce_own(const Request& request, std::span<const int> group, Chunk& chunk,
                                Time deadline) {
  FFDL_RETURN_IF_ERROR(wait(chunk.in, deadline));
  const Signature& signature = request.signature;
  const uint64_t element = request.element();
  std::byte* const output = chunk.output != nullptr ? chunk.output : chunk.results.data();
  std::byte* const result = output + chunk.own.begin * element;
  const uint64_t own = chunk.own.end - chunk.own.begin;
  if (own > 0) tree_reduce(signature.reduce, signature.dtype, chunk.from, result, own);
  const bool to_all = signature.kind == Collective::kAllReduce;
  for (size_t i = 0; i < group.size(); ++i) {
    const int rank = group[i];
    if (rank == world_.rank) continue;
    if (to_all || world_.rank == signature.root) {
      const Piece piece =
          piece_of(static_cast<int>(i), static_cast<int>(group.size()), chunk.count, element);
      FFDL_RETURN_IF_ERROR(receive(output + piece.begin * element,
                                   (piece.end - piece.begin) * element, rank, Tag::kResult, chunk));
    }
    if (to_all || rank == signature.root) {
      FFDL_RETURN_IF_ERROR(send(result, own * element, rank, Tag::kResult, chunk));
    }
  }
  return {};
}

Status LinkExchange::take_results(const Request& request, Chunk& chunk, Time deadline) {
  FFDL_RETURN_IF_ERROR(wait(chunk.in, deadline));
  FFDL_RETURN_IF_ERROR(wait(chunk.out, deadline));
  if (chunk.output == nullptr && !request.out.empty()) {
    const uint64_t element = request.element();
    copy_to_list(chunk.results.data(), request.out, chunk.begin * element, chunk.count * element);
  }
  return {};
}

void LinkExchange::let_go() {
  for (Chunk& chunk : chunks_) {
    chunk.in.clear();
    chunk.out.clear();
  }
}

Status LinkExchange::send(const std::byte* data, uint64_t bytes, int to, Tag tag, Chunk& chunk) {
  if (bytes == 0) return {};
  // make_place() takes writable memory; sending only reads it.
  chunk.out.push_back(links_.make_place(const_cast<std::byte*>(data), bytes));
  return chunk.out.back()->send(to, tag, 0, bytes);
}

Status LinkExchange::receive(std::byte* data, uint64_t bytes, int from, Tag tag, Chunk& chunk) {
  if (bytes == 0) return {};
  chunk.in.push_back(links_.make_place(data, bytes));
  return chunk.in.back()->receive(from, tag, 0, bytes);
}

Status LinkExchange::wait(std::vector<std::unique_ptr<Place>>& places, Time deadline) const {
  for (const auto& place : places) FFDL_RETURN_IF_ERROR(place->wait(deadline));
  places.clear();
  return {};
}

}  // namespace ffdl::comm
