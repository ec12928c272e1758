#include "comm/shm/pairs.h"

#include <algorithm>

#include "base/errors.h"
#include "base/limits.h"
#include "comm/operation/buffer_pieces.h"

namespace ffdl::comm {
namespace {

constexpr uint64_t kPart = base::kMailboxPartBytes;

// Counts a message without elements as one part.
uint64_t parts_of(const Request& request) {
  return std::max<uint64_t>((request.block_bytes() + kPart - 1) / kPart, 1);
}

uint64_t bytes_of_part(const Request& request, uint64_t part) {
  return std::min(kPart, request.block_bytes() - part * kPart);
}

uint64_t offer_of(uint64_t number, int receiver) {
  return number * base::kRanksMax + static_cast<uint64_t>(receiver);
}

}  // namespace

ShmPairs::ShmPairs(ShmMeeting& meeting, int rank)
    : meeting_(meeting),
      view_(meeting.view()),
      rank_(rank),
      seen_(static_cast<size_t>(view_.ranks())) {}

Status ShmPairs::run(const Request& request, Time deadline) {
  return request.signature.kind == Collective::kSend ? send(request, deadline)
                                                     : recv(request, deadline);
}

// Starts with an empty box: the receiver of the last message is done with it.
Status ShmPairs::send(const Request& request, Time deadline) {
  Mailbox& box = view_.mailbox(rank_);
  const uint64_t parts = parts_of(request);
  box.sent = request.signature;
  box.taken.store(0, std::memory_order_relaxed);
  for (uint64_t part = 0; part < parts; ++part) {
    if (part >= base::kMailboxParts) {
      const uint64_t over = part - base::kMailboxParts + 1;
      FFDL_RETURN_IF_ERROR(wait_until_taken(request, over, deadline));
    }
    copy_from_list(request.in, part * kPart, bytes_of_part(request, part),
                   view_.mailbox_part(rank_, part));
    // Pairs with the load in recv(). The offer pairs with the load in is_offered(). That orders all
    // earlier stores for the message.
    box.filled.store(part + 1, std::memory_order_seq_cst);
    if (part == 0) {
      box.offer.store(offer_of(++sent_, request.signature.root), std::memory_order_seq_cst);
    }
    box.bell.ring();
  }
  return wait_until_taken(request, parts, deadline);
}

Status ShmPairs::wait_until_taken(const Request& request, uint64_t parts, Time deadline) {
  Mailbox& box = view_.mailbox(rank_);
  const int receiver = request.signature.root;
  const auto is_taken = [&box, parts] {
    return box.taken.load(std::memory_order_seq_cst) >= parts;  // kRefused is larger
  };
  const Status status = meeting_.wait_for_rank(receiver, box.bell, is_taken, deadline);
  if (status.code() == StatusCode::kTimeout && is_offered(receiver)) {
    return both_send(request.signature, rank_);
  }
  FFDL_RETURN_IF_ERROR(status);
  const uint64_t taken = box.taken.load(std::memory_order_seq_cst);
  if (taken == kRefused) {
    return disagreement(request.signature, rank_, box.wanted, receiver);
  }
  if (taken <= box.filled.load(std::memory_order_relaxed)) return {};
  return corrupt(request, receiver, "has received more than was sent");
}

Status ShmPairs::corrupt(const Request& request, int other, std::string_view what) const {
  return base::make_error(StatusCode::kCorrupt, "run {} at rank {}: rank {} {}; form a new world",
                          describe(request.signature), rank_, other, what);
}

bool ShmPairs::is_offered(int sender) const {
  const uint64_t offer = view_.mailbox(sender).offer.load(std::memory_order_seq_cst);
  return offer != seen_[static_cast<size_t>(sender)] &&
         offer % base::kRanksMax == static_cast<uint64_t>(rank_);
}

Status ShmPairs::recv(const Request& request, Time deadline) {
  const int sender = request.signature.root;
  Mailbox& box = view_.mailbox(sender);
  FFDL_RETURN_IF_ERROR(meeting_.wait_for_rank(
      sender, box.bell, [this, sender] { return is_offered(sender); }, deadline));
  const uint64_t offer = box.offer.load(std::memory_order_relaxed);
  uint64_t& seen = seen_[static_cast<size_t>(sender)];
  // The numbers of a sender's messages only grow.
  if (offer < seen || box.sent.kind != Collective::kSend || box.sent.root != rank_) {
    return corrupt(request, sender, "offers something that is not a message to this rank");
  }
  seen = offer;
  if (!fit(box.sent, request.signature)) {
    const Status status = disagreement(request.signature, rank_, box.sent, sender);
    box.wanted = request.signature;
    box.taken.store(kRefused, std::memory_order_seq_cst);  // pairs with those in wait_until_taken
    box.bell.ring();
    return status;
  }
  const uint64_t parts = parts_of(request);
  for (uint64_t part = 0; part < parts; ++part) {
    const auto is_filled = [&box, part] {
      return box.filled.load(std::memory_order_seq_cst) > part;
    };
    FFDL_RETURN_IF_ERROR(meeting_.wait_for_rank(sender, box.bell, is_filled, deadline));
    copy_to_list(view_.mailbox_part(sender, part), request.out, part * kPart,
                 bytes_of_part(request, part));
    box.taken.store(part + 1, std::memory_order_seq_cst);  // pairs with the loads in is_taken
    box.bell.ring();
  }
  return {};
}

}  // namespace ffdl::comm
