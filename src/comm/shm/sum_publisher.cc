#include "comm/shm/sum_publisher.h"

#include <vector>

#include "base/errors.h"
#include "base/limits.h"
#include "comm/operation/buffer_pieces.h"
#include "comm/shm/layout.h"

namespace ffdl::comm {
namespace {

// The invitation that rank 0 broadcasts. `pid` 0: there is no ring.
struct Invitation {
  int64_t pid = 0;
  int64_t fd = 0;
  int64_t segment = 0;
  int64_t ring_bytes = 0;
};

Status check_ring_bytes(const World& world, uint64_t ring_bytes) {
  if (ring_bytes >= base::kSumRingBytesMin && ring_bytes <= base::kSumRingBytesMax &&
      ring_bytes % 4096 == 0) {
    return {};
  }
  return base::invalid_argument(
      "open generation {} to subscribers: ring_bytes is {}; use {} to {}, in whole pages of 4096",
      world.generation, ring_bytes, base::kSumRingBytesMin, base::kSumRingBytesMax);
}

}  // namespace

Result<std::unique_ptr<SumPublisher>> SumPublisher::open(Communicator& communicator, Store& store,
                                                         uint64_t ring_bytes, Time deadline) {
  const World& world = communicator.world();
  FFDL_RETURN_IF_ERROR(check_ring_bytes(world, ring_bytes));
  std::unique_ptr<SumPublisher> own;
  Status why = base::make_error(StatusCode::kUnavailable,
                                "open generation {} to subscribers: rank 0 '{}' could not create "
                                "the ring; read the error of that rank",
                                world.generation, world.members.front().id);
  const auto keep = [&](Result<std::unique_ptr<SumPublisher>> made) {
    why = made.status();
    if (made.ok()) own = std::move(made).value();
  };
  Invitation invitation = {.ring_bytes = static_cast<int64_t>(ring_bytes)};
  if (world.rank == 0) {
    keep(take_place(world, store,
                    create_ring({.generation = world.generation,
                                 .job = job_hash(world),
                                 .members = world_hash(world),
                                 .ring_bytes = ring_bytes,
                                 .ranks = static_cast<uint32_t>(world.members.size()),
                                 .reserved = 0})));
    if (own != nullptr) {
      const shm::SegmentPlace place = own->place();
      invitation.pid = place.pid;
      invitation.fd = place.fd;
      invitation.segment = static_cast<int64_t>(place.segment);
    }
  }
  FFDL_RETURN_IF_ERROR(communicator.broadcast({&invitation, 4, DType::kInt64}, 0, deadline));
  if (invitation.ring_bytes != static_cast<int64_t>(ring_bytes)) {
    own.reset();
    why = base::invalid_argument(
        "open generation {} to subscribers: ring_bytes is {} at rank {} and {} at rank 0; set the "
        "same value at all members",
        world.generation, ring_bytes, world.rank, invitation.ring_bytes);
  } else if (world.rank != 0 && invitation.pid != 0) {
    const shm::SegmentPlace place = {.segment = static_cast<uint64_t>(invitation.segment),
                                     .pid = invitation.pid,
                                     .fd = invitation.fd};
    keep(take_place(world, store, open_ring(place, world)));
  }
  int8_t mine = own != nullptr ? 1 : 0;
  std::vector<int8_t> all(world.members.size());
  FFDL_RETURN_IF_ERROR(communicator.all_gather({&mine, 1, DType::kInt8},
                                               {all.data(), all.size(), DType::kInt8}, deadline));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != 0 || own == nullptr) continue;
    return base::make_error(
        StatusCode::kUnavailable,
        "open generation {} to subscribers: rank {} '{}' failed; read the error of that rank",
        world.generation, rank, world.members[rank].id);
  }
  if (own == nullptr) return why;
  return own;
}

// Writes to the store last, because no subscriber opens the ring before.
Result<std::unique_ptr<SumPublisher>> SumPublisher::take_place(const World& world, Store& store,
                                                               Result<shm::Segment> segment) {
  FFDL_RETURN_IF_ERROR(segment.status());
  FFDL_ASSIGN_OR_RETURN(shm::RoleLock lock,
                        shm::RoleLock::acquire(segment->fd(), shm::learner_role(world.rank)));
  auto publisher =
      std::make_unique<SumPublisher>(world, store, std::move(*segment), std::move(lock));
  if (world.rank == 0) {
    FFDL_RETURN_IF_ERROR(store.put(publisher->key_, to_text(publisher->place())).status());
  }
  return publisher;
}

SumPublisher::SumPublisher(const World& world, Store& store, shm::Segment segment,
                           shm::RoleLock lock)
    : rank_(world.rank),
      key_(ring_key(world)),
      store_(store),
      segment_(std::move(segment)),
      view_(segment_.data(), config_of(segment_)),
      lock_(std::move(lock)),
      mine_(view_.words(rank_)) {
  mine_.state.store(RingState::kOpen, std::memory_order_seq_cst);  // pairs with find_end()
}

SumPublisher::~SumPublisher() {
  if (!lock_.held()) return;  // a fork: the ring is the member's
  // If the store does not answer, the key stays. It then names a process that no longer has the
  // ring.
  if (rank_ == 0) static_cast<void>(store_.remove(key_));
  end_as(RingState::kLeft);
}

void SumPublisher::end_as(RingState state) {
  if (mine_.state.load(std::memory_order_relaxed) != RingState::kOpen) return;
  mine_.state.store(state, std::memory_order_seq_cst);  // pairs with the loads of subscribers
  view_.bell().ring();
}

void SumPublisher::fail() { end_as(RingState::kFailed); }

void SumPublisher::publish(const Request& request) {
  const uint64_t bytes = request.block_bytes();
  const bool fits = bytes_with_header(bytes) <= view_.config().ring_bytes;
  const uint64_t end = position_ + bytes_with_header(fits ? bytes : 0);
  // Precedes every written byte, in one instruction that orders all before against all after. A
  // subscriber that has read such a byte sees it in AllReduceSubscriber::Impl::is_intact().
  mine_.begun.exchange(end, std::memory_order_acq_rel);
  if (rank_ == 0) {
    const SumHeader header = {.number = number_,
                              .count = request.signature.block,
                              .dtype = request.signature.dtype,
                              .is_left_out = fits ? 0U : 1U,
                              .reserved = {}};
    view_.write(position_, reinterpret_cast<const std::byte*>(&header), sizeof header);
  }
  if (fits) {
    const Piece share = piece_of(rank_, view_.ranks(), bytes, 1);
    uint64_t to = position_ + sizeof(SumHeader) + share.begin;
    for_each_piece(request.out, share.begin, share.end - share.begin,
                   [&](const std::byte* piece, uint64_t size) {
                     view_.write(to, piece, size);
                     to += size;
                   });
  }
  position_ = end;
  ++number_;
  mine_.done.store(end, std::memory_order_seq_cst);  // pairs with the loads in is_there()
  view_.bell().ring();
}

}  // namespace ffdl::comm
