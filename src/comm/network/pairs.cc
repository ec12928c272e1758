#include "comm/network/pairs.h"

#include <algorithm>

#include "base/errors.h"
#include "base/limits.h"
#include "comm/operation/buffer_pieces.h"
#include "comm/operation/collective_blocks.h"

namespace ffdl::comm {
namespace {

constexpr uint64_t kPieceBytes = base::kLinkPieceBytes;

bool sends(const Signature& signature) { return signature.kind == Collective::kSend; }

}  // namespace

LinkPairs::LinkPairs(World world, Links& links) : world_(std::move(world)), links_(links) {}

Status LinkPairs::run(const Request& request, Time deadline) {
  FFDL_RETURN_IF_ERROR(agree(request, deadline));
  const uint64_t pieces = (request.block_bytes() + kPieceBytes - 1) / kPieceBytes;
  for (uint64_t t = 0; t < pieces + 1; ++t) {
    if (t < pieces) FFDL_RETURN_IF_ERROR(begin_piece(request, t, pieces_[t % 2]));
    if (t >= 1) FFDL_RETURN_IF_ERROR(end_piece(request, pieces_[(t - 1) % 2], deadline));
  }
  return {};
}

// Waits for the peer's signature first. That confirms it, as the peer waits for this in its turn.
Status LinkPairs::agree(const Request& request, Time deadline) {
  mine_ = request.signature;
  const int peer = mine_.root;
  told_ = links_.make_place(reinterpret_cast<std::byte*>(&mine_), sizeof mine_);
  heard_ = links_.make_place(reinterpret_cast<std::byte*>(&theirs_), sizeof theirs_);
  FFDL_RETURN_IF_ERROR(heard_->receive(peer, Tag::kPair, 0, sizeof theirs_));
  FFDL_RETURN_IF_ERROR(told_->send(peer, Tag::kPair, 0, sizeof mine_));
  const Status heard = heard_->wait(deadline);
  if (heard.code() == StatusCode::kTimeout) return late();
  FFDL_RETURN_IF_ERROR(heard);
  const Status told = told_->wait(deadline);
  if (!is_pair(theirs_.kind) || theirs_.root != world_.rank) {
    return base::make_error(StatusCode::kCorrupt,
                            "run {} at rank {}: rank {} '{}' offers {}, which does not name this "
                            "rank; form a new world",
                            describe(mine_), world_.rank, peer,
                            world_.members[static_cast<size_t>(peer)].id, describe(theirs_));
  }
  if (sends(mine_) == sends(theirs_)) return wait_in_vain(deadline);
  if (!fit(mine_, theirs_)) return disagreement(mine_, world_.rank, theirs_, peer);
  return told;
}

Status LinkPairs::wait_in_vain(Time deadline) {
  const bool both = sends(theirs_);
  FFDL_RETURN_IF_ERROR(heard_->receive(mine_.root, Tag::kPair, 0, sizeof theirs_));
  const Status waited = heard_->wait(deadline);
  if (waited.code() != StatusCode::kTimeout) return waited;
  return both ? both_send(mine_, world_.rank) : late();
}

Status LinkPairs::late() const {
  return base::make_error(
      StatusCode::kTimeout,
      "run an operation at rank {}: rank {} '{}' had not arrived by the deadline; wait longer, or "
      "find out what it does",
      world_.rank, mine_.root, world_.members[static_cast<size_t>(mine_.root)].id);
}

Status LinkPairs::begin_piece(const Request& request, uint64_t number, Piece& piece) {
  const bool out = sends(request.signature);
  const std::span<const Buffer> list = out ? request.in : request.out;
  piece.begin = number * kPieceBytes;
  piece.bytes = std::min(kPieceBytes, request.block_bytes() - piece.begin);
  std::byte* data = find_run(list, piece.begin, piece.bytes, 1);
  if (data == nullptr) {
    piece.room.resize(kPieceBytes);
    data = piece.room.data();
    if (out) copy_from_list(list, piece.begin, piece.bytes, data);
  } else {
    piece.room.clear();
  }
  piece.place = links_.make_place(data, piece.bytes);
  const int peer = request.signature.root;
  return out ? piece.place->send(peer, Tag::kMessage, 0, piece.bytes)
             : piece.place->receive(peer, Tag::kMessage, 0, piece.bytes);
}

Status LinkPairs::end_piece(const Request& request, Piece& piece, Time deadline) {
  FFDL_RETURN_IF_ERROR(piece.place->wait(deadline));
  piece.place.reset();
  if (!sends(request.signature) && !piece.room.empty()) {
    copy_to_list(piece.room.data(), request.out, piece.begin, piece.bytes);
  }
  return {};
}

void LinkPairs::let_go() {
  told_.reset();
  heard_.reset();
  for (Piece& piece : pieces_) piece.place.reset();
}

}  // namespace ffdl::comm
