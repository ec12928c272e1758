#include "comm/network/agreement.h"

#include <cstring>

#include "base/errors.h"
#include "base/limits.h"
#include "comm/operation/buffer_pieces.h"
#include "comm/operation/collective_blocks.h"

namespace ffdl::comm {
namespace {

// Precedes the contents, aligned for every type.
struct alignas(64) Header {
  uint64_t operation;
  Signature signature;
  uint64_t bytes;  // of the contents that follow
};
static_assert(sizeof(Header) == 64, "a change needs another base::kProtocolVersion");

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

// Reuses the inbox of operation q - 2 for q. The others send the first message of q only after this
// rank has sent that of q - 1. By then it has used the message of q - 2.
Status LinkAgreement::invite(uint64_t operation) {
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (rank == world_.rank) continue;
    FFDL_RETURN_IF_ERROR(
        inboxes_[operation & 1]->receive(rank, Tag::kFirst, place_of(rank), kRoom));
  }
  return {};
}

// Keeps an error for the next operation: a member that leaves after this one does not harm it.
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
    FFDL_RETURN_IF_ERROR(check_sequence(theirs.operation, rank));
    if (theirs.signature != request.signature) {
      return disagreement(request.signature, world_.rank, theirs.signature, rank);
    }
    uint64_t block = 0;
    const bool given =
        comes_along(request) && gives(request.signature, rank, world_.rank, world_.size(), block);
    const uint64_t expected = given ? request.block_bytes() : 0;
    if (theirs.bytes == expected) continue;
    return base::make_error(
        StatusCode::kCorrupt,
        "{} at rank {}: rank {} '{}' sends {} bytes in place of {}; form a new world", kOperate,
        world_.rank, rank, id_of(rank), theirs.bytes, expected);
  }
  return {};
}

// Refuses another number: messages of one connection arrive in order, so no member sends it.
Status LinkAgreement::check_sequence(uint64_t operation, int rank) const {
  if (operation == operation_) return {};
  return base::make_error(
      StatusCode::kCorrupt,
      "{} at rank {}: rank {} '{}' is in its operation {}, not in {}; form a new world", kOperate,
      world_.rank, rank, id_of(rank), operation, operation_);
}

// Reuses the outbox of operation q - 2 for q. A rank that sent the first message of q - 1 had
// received that of q - 2.
Status LinkAgreement::announce(const Request& request, Time deadline) {
  Place& place = *outboxes_[operation_ & 1];
  FFDL_RETURN_IF_ERROR(place.wait(deadline));
  Header header = {.operation = operation_, .signature = request.signature, .bytes = 0};
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (rank == world_.rank) continue;
    std::byte* const room = outbox(operation_, rank);
    uint64_t block = 0;
    header.bytes = 0;
    if (comes_along(request) && gives(request.signature, world_.rank, rank, world_.size(), block)) {
      header.bytes = request.block_bytes();
      copy_from_list(request.in, block * header.bytes, header.bytes, room + sizeof header);
    }
    std::memcpy(room, &header, sizeof header);
    FFDL_RETURN_IF_ERROR(
        place.send(rank, Tag::kFirst, place_of(rank), sizeof header + header.bytes));
  }
  return {};
}

Status LinkAgreement::hear(Time deadline) {
  Status heard = inboxes_[operation_ & 1]->wait(deadline);
  if (heard.code() != StatusCode::kTimeout) return heard;
  // No message arrives after a timeout, so the inbox shows the late rank.
  int late = 0;
  for (; late + 1 < world_.size(); ++late) {
    Header theirs;
    std::memcpy(&theirs, inbox(operation_, late), sizeof theirs);
    if (late != world_.rank && theirs.operation != operation_) break;
  }
  return base::make_error(
      StatusCode::kTimeout,
      "run an operation at rank {}: rank {} '{}' had not arrived by the deadline; wait longer, or "
      "find out what it does",
      world_.rank, late, id_of(late));
}

}  // namespace ffdl::comm
