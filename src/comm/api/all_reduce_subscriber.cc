#include "ffdl/comm/all_reduce_subscriber.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/launcher_watch.h"
#include "base/limits.h"
#include "comm/api/interruptible_store.h"
#include "comm/operation/buffer_pieces.h"
#include "comm/operation/request.h"
#include "comm/shm/sum_ring.h"
#include "shm/liveness.h"

namespace ffdl {

using base::make_error;
using comm::RingState;
using comm::RingWords;
using comm::SumHeader;

namespace {

Status check_launcher(uint64_t generation) {
  return base::launcher_watch().check_now("subscriber to generation {}", generation);
}

}  // namespace

class AllReduceSubscriber::Impl {
 public:
  Impl(World world, shm::Segment segment)
      : world_(std::move(world)),
        segment_(std::move(segment)),
        view_(segment_.data(), comm::config_of(segment_)),
        position_(least_done()) {}

  Result<uint64_t> next(std::span<const Buffer> out, Time deadline);

 private:
  uint64_t least_done() const;
  // Returns whether all members have written the sum at `position_`.
  bool is_there() const { return least_done() > position_; }
  // Returns whether a member that has not written its share of that sum never will.
  bool is_hopeless() const;
  // Returns whether no member has begun to overwrite the sum at `position_`.
  bool is_intact();
  Status wait_for_sum(Time deadline);
  // Returns the error for a member that ended while its share is missing.
  Status find_end() const;
  Status check_fit(const SumHeader& header, std::span<const Buffer> out) const;
  Status lost_place() const;

  const World world_;
  const shm::Segment segment_;
  const comm::RingView view_;
  uint64_t position_;
  std::optional<uint64_t> last_;  // the number of the previous sum
  Status failure_;                // the first permanent failure
};

uint64_t AllReduceSubscriber::Impl::least_done() const {
  uint64_t least = UINT64_MAX;
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    // Pairs with the store in publish(): bytes written before it can be read.
    least = std::min(least, view_.words(rank).done.load(std::memory_order_seq_cst));
  }
  return least;
}

bool AllReduceSubscriber::Impl::is_hopeless() const {
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    const RingWords& words = view_.words(rank);
    if (words.done.load(std::memory_order_seq_cst) > position_) continue;
    if (words.state.load(std::memory_order_seq_cst) > RingState::kOpen) return true;
  }
  return false;
}

bool AllReduceSubscriber::Impl::is_intact() {
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    // This load stays behind those of the bytes. It pairs with the exchange in publish().
    const uint64_t begun = view_.words(rank).begun.fetch_add(0, std::memory_order_acq_rel);
    if (begun > position_ + view_.config().ring_bytes) return false;
  }
  return true;
}

// Reads `done` again after the state: a member may have written its share and ended since.
Status AllReduceSubscriber::Impl::find_end() const {
  for (int rank = 0; rank < view_.ranks(); ++rank) {
    const RingWords& words = view_.words(rank);
    const RingState state = words.state.load(std::memory_order_seq_cst);
    const bool dead =
        state == RingState::kOpen && !shm::role_is_held(segment_.fd(), shm::learner_role(rank));
    if (state <= RingState::kOpen && !dead) continue;
    if (words.done.load(std::memory_order_seq_cst) > position_) continue;
    const std::string& id = world_.members[static_cast<size_t>(rank)].id;
    // The member may have left in order between the two reads, of its state and of its lock.
    if (words.state.load(std::memory_order_seq_cst) == RingState::kLeft) {
      return make_error(StatusCode::kWorldChanged,
                        "subscribe to generation {}: rank {} '{}' has left this world, or closed "
                        "it to subscribers; attach to the next world",
                        world_.generation, rank, id);
    }
    return make_error(StatusCode::kPeerLost,
                      "subscribe to generation {}: rank {} '{}' {} before it had contributed to "
                      "the next sum; attach to the next world",
                      world_.generation, rank, id, dead ? "died" : "failed");
  }
  return {};
}

Status AllReduceSubscriber::Impl::wait_for_sum(Time deadline) {
  while (true) {
    const Time now = std::chrono::steady_clock::now();
    const Time look = std::min<Time>(deadline, now + base::kLivenessInterval);
    view_.bell().wait_until([&] { return is_there() || is_hopeless(); }, look);
    if (is_there()) return {};
    Status lost = find_end();
    failure_ = check_launcher(world_.generation);
    if (failure_.ok()) failure_ = std::move(lost);
    if (!failure_.ok()) return failure_;
    if (std::chrono::steady_clock::now() >= deadline) {
      return make_error(
          StatusCode::kTimeout,
          "subscribe to generation {}: no new sum arrived by the deadline; wait longer",
          world_.generation);
    }
  }
}

Status AllReduceSubscriber::Impl::check_fit(const SumHeader& header,
                                            std::span<const Buffer> out) const {
  uint64_t count = 0;
  bool fits = true;
  for (const Buffer& buffer : out) {
    fits = fits && buffer.dtype == header.dtype && (buffer.data != nullptr || buffer.count == 0);
    count += buffer.count;
  }
  if (fits && count == header.count) return {};
  return base::invalid_argument(
      "subscribe to generation {}: sum {} has {} {}; the memory has room for {} {}",
      world_.generation, header.number, header.count, to_string(header.dtype), count,
      out.empty() ? "elements" : to_string(out.front().dtype));
}

Status AllReduceSubscriber::Impl::lost_place() const {
  return make_error(
      StatusCode::kExhausted,
      "subscribe to generation {}: newer sums have overwritten the next sum in the ring of {} MiB; "
      "drop the received sums and attach again, or open with larger ring_bytes",
      world_.generation, view_.config().ring_bytes >> 20);
}

Result<uint64_t> AllReduceSubscriber::Impl::next(std::span<const Buffer> out, Time deadline) {
  if (!failure_.ok()) return failure_;
  FFDL_RETURN_IF_ERROR(wait_for_sum(deadline));
  SumHeader header = {};
  view_.read(position_, reinterpret_cast<std::byte*>(&header), sizeof header);
  if (!is_intact()) return failure_ = lost_place();
  if (last_.has_value() && header.number != *last_ + 1) {
    return failure_ = make_error(StatusCode::kCorrupt,
                                 "subscribe to generation {}: sum {} follows sum {}; has something "
                                 "written over the ring",
                                 world_.generation, header.number, *last_);
  }
  const uint64_t bytes = header.count * element_bytes(header.dtype);
  if (header.is_left_out != 0) {
    failure_ =
        make_error(StatusCode::kExhausted,
                   "subscribe to generation {}: sum {} of {} MiB is larger than the ring of {} "
                   "MiB; open with larger ring_bytes",
                   world_.generation, header.number, bytes >> 20, view_.config().ring_bytes >> 20);
    return failure_;
  }
  FFDL_RETURN_IF_ERROR(check_fit(header, out));
  uint64_t from = position_ + sizeof header;
  comm::for_each_piece(out, 0, bytes, [&](std::byte* piece, uint64_t size) {
    view_.read(from, piece, size);
    from += size;
  });
  if (!is_intact()) return failure_ = lost_place();
  position_ += comm::bytes_with_header(bytes);
  last_ = header.number;
  return header.number;
}

AllReduceSubscriber::AllReduceSubscriber(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AllReduceSubscriber::~AllReduceSubscriber() = default;

Result<uint64_t> AllReduceSubscriber::next(std::span<const Buffer> out, Time deadline) {
  return impl_->next(out, deadline);
}

// Waits while the key names a ring that is gone: it is from an earlier opening that was not closed.
Result<std::unique_ptr<AllReduceSubscriber>> AllReduceSubscriber::attach(const World& world,
                                                                         Store& given,
                                                                         Time deadline) {
  FFDL_RETURN_IF_ERROR(comm::check_world(world));
  std::function<Status()> check;
  if (base::launcher_watch().has_launcher()) {
    check = [generation = world.generation] { return check_launcher(generation); };
  }
  comm::InterruptibleStore store(given, check);
  const std::string key = comm::ring_key(world);
  const std::string doing = fmt::format("subscribe to generation {}", world.generation);
  FFDL_ASSIGN_OR_RETURN(Revision seen, store.wait_change(key, 0, deadline));
  while (true) {
    Status why(StatusCode::kTimeout,
               "its members have not opened to subscribers; call open_to_subscribers() at each "
               "member, or wait longer");
    const Result<Entry> entry = store.get(key);
    if (entry.ok()) {
      Result<shm::Segment> segment = comm::open_ring(shm::segment_place_of(entry->value), world);
      if (segment.ok()) {
        auto impl = std::make_unique<Impl>(world, std::move(*segment));
        return std::unique_ptr<AllReduceSubscriber>(new AllReduceSubscriber(std::move(impl)));
      }
      why = segment.status();
    } else if (entry.status().code() != StatusCode::kNotFound) {
      return entry.status();
    }
    const Result<Revision> changed = store.wait_change(key, seen, deadline);
    if (!changed.ok() && changed.status().code() == StatusCode::kTimeout) {
      return std::move(why).with_context(doing);
    }
    FFDL_RETURN_IF_ERROR(changed.status());
    seen = *changed;
  }
}

}  // namespace ffdl
