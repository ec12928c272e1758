#include "comm/link_agreement.h"

#include <cstring>

#include "base/errors.h"
#include "base/limits.h"
#include "comm/parts.h"
#include "comm/pieces.h"

namespace ffdl::comm {
namespace {

// Contents follow it, aligned for every type.
struct alignas(64) Header {
  uint64_t operation;
  Signature signature;
};
static_assert(sizeof(Header) == 64);

constexpr uint64_t kRoom = sizeof(Header) + base::kEagerBytesMax;

uint64_t place_of(int rank) { return static_cast<uint64_t>(rank) * kRoom; }

std::unique_ptr<std::byte[]> aligned_rooms(uint64_t count) {
  return std::make_unique<std::byte[]>(count * kRoom);
}

}  // namespace

bool comes_along(const Request& request) { return request.block_bytes() <= base::kEagerBytesMax; }

bool gives(const Signature& signature, int from, int to, int ranks, uint64_t& in_block) {
  for (const Part& part : parts_of(signature.kind, signature.root, to, ranks)) {
    if (part.source != kReduced && part.source != from) continue;
    in_block = part.in_block;
    return true;
  }
  return false;
}

LinkAgreement::LinkAgreement(World world, Links& links)
    : world_(std::move(world)),
      links_(links),
      outbox_memory_(aligned_rooms(2 * world_.members.size())),
      inbox_memory_(aligned_rooms(2 * world_.members.size())),
      outboxes_{links.make_place(outbox(0, 0), place_of(world_.size())),
                links.make_place(outbox(1, 0), place_of(world_.size()))},
      inboxes_{links.make_place(inbox(0, 0), place_of(world_.size())),
               links.make_place(inbox(1, 0), place_of(world_.size()))} {}

uint64_t LinkAgreement::half_of(uint64_t operation) const {
  return (operation & 1) * place_of(world_.size());
}

std::byte* LinkAgreement::outbox(uint64_t operation, int to) const {
  return outbox_memory_.get() + half_of(operation) + place_of(to);
}

std::byte* LinkAgreement::inbox(uint64_t operation, int from) const {
  return inbox_memory_.get() + half_of(operation) + place_of(from);
}

const std::byte* LinkAgreement::contents(int from) const {
  return inbox(operation_, from) + sizeof(Header);
}

Status LinkAgreement::open() {
  FFDL_RETURN_IF_ERROR(invite(1));
  return invite(2);
}

// The others send the first message of operation q + 2 only after this rank has sent that of
// q + 1, so that what came for q has been used.
Status LinkAgreement::invite(uint64_t operation) {
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (rank == world_.rank) continue;
    FFDL_RETURN_IF_ERROR(
        inboxes_[operation & 1]->receive(rank, Tag::kFirst, place_of(rank), kRoom));
  }
  return {};
}

// Who leaves after an operation does no harm to it: the next one tells.
void LinkAgreement::end() { invitation_ = invite(operation_ + 2); }

Status LinkAgreement::agree(const Request& request, Time deadline) {
  FFDL_RETURN_IF_ERROR(invitation_);
  ++operation_;
  FFDL_RETURN_IF_ERROR(announce(request, deadline));
  FFDL_RETURN_IF_ERROR(hear(deadline));
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (rank == world_.rank) continue;
    Header theirs;
    std::memcpy(&theirs, inbox(operation_, rank), sizeof theirs);
    if (theirs.signature == request.signature) continue;
    return disagreement(request.signature, world_.rank, theirs.signature, rank);
  }
  return {};
}

// Who sent the first message of operation q - 1 had received that of q - 2, which lies where that
// of q goes now.
Status LinkAgreement::announce(const Request& request, Time deadline) {
  Place& place = *outboxes_[operation_ & 1];
  FFDL_RETURN_IF_ERROR(place.wait(deadline));
  const Header header = {.operation = operation_, .signature = request.signature};
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (rank == world_.rank) continue;
    std::byte* const room = outbox(operation_, rank);
    std::memcpy(room, &header, sizeof header);
    uint64_t bytes = 0;
    uint64_t block = 0;
    if (comes_along(request) && gives(request.signature, world_.rank, rank, world_.size(), block)) {
      bytes = request.block_bytes();
      copy_from_list(request.in, block * bytes, bytes, room + sizeof header);
    }
    FFDL_RETURN_IF_ERROR(place.send(rank, Tag::kFirst, place_of(rank), sizeof header + bytes));
  }
  return {};
}

Status LinkAgreement::hear(Time deadline) {
  Status heard = inboxes_[operation_ & 1]->wait(deadline);
  if (heard.code() != StatusCode::kTimeout) return heard;
  // Nothing comes in any more after a timeout, so that who is late can be read.
  int late = 0;
  for (; late + 1 < world_.size(); ++late) {
    Header theirs;
    std::memcpy(&theirs, inbox(operation_, late), sizeof theirs);
    if (late != world_.rank && theirs.operation != operation_) break;
  }
  return base::make_error(
      StatusCode::kTimeout,
      "run an operation at rank {}: rank {} '{}' had not come by the deadline; wait longer, or "
      "find out what it does",
      world_.rank, late, world_.members[static_cast<size_t>(late)].id);
}

}  // namespace ffdl::comm
