#include "ffdl/data/batch_ring.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/errors.h"
#include "base/launcher_watch.h"
#include "base/limits.h"
#include "data/ring/batch_ring_layout.h"
#include "shm/liveness.h"
#include "shm/segment_place.h"

namespace ffdl {

using base::invalid_argument;
using base::make_error;

class BatchRing::Impl {
 public:
  Impl(shm::Segment segment, data::BatchRingView view, shm::RoleLock lock, uint32_t consumers)
      : segment_(std::move(segment)), view_(view), lock_(std::move(lock)), consumers_(consumers) {}
  ~Impl() {
    if (lock_.held() && !finished_) view_.end(data::RingState::kGivenUp);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::string place() const { return to_text(place_of(segment_)); }

  Status put(const DataBatch& batch, Time deadline) {
    FFDL_RETURN_IF_ERROR(check_usable("put a batch"));
    if (finished_) return invalid_argument("put a batch: after finish(); make another ring");
    const uint64_t bytes = data::bytes_in_slot(batch);
    if (bytes > view_.config().slot_bytes) {
      return invalid_argument(
          "put a batch of {} samples: it needs {} bytes and a slot has {}; raise slot_bytes, or "
          "take fewer samples at a time",
          batch.samples.size(), bytes, view_.config().slot_bytes);
    }
    const auto has_room = [&] {
      return view_.consumers() >= (batches() == 0 ? consumers_ : 1) && first_in_the_way() == none();
    };
    if (!has_room()) {
      waited_.fetch_add(1, std::memory_order_relaxed);
      if (!wait_until(has_room, deadline)) return late("put a batch", first_in_the_way());
    }
    view_.put(batch);
    return {};
  }

  Status wait_used(Time deadline) {
    FFDL_RETURN_IF_ERROR(check_usable("wait for consumers"));
    const auto is_used = [&] { return view_.first_unused() == none(); };
    if (!wait_until(is_used, deadline)) return late("wait for consumers", view_.first_unused());
    const uint64_t abandoned = view_.reader().abandoned.load(std::memory_order_seq_cst);
    const uint64_t newly = abandoned - std::exchange(told_, abandoned);
    if (newly == 0) return {};
    return make_error(StatusCode::kPeerLost,
                      "wait for consumers: a consumer ended before it had used {} batches; put "
                      "them again, or continue without them",
                      newly);
  }

  void finish() {
    if (!lock_.held() || std::exchange(finished_, true)) return;
    view_.end(data::RingState::kFinished);
  }

  BatchRingStats stats() const {
    return {.batches = batches(),
            .waited = waited_.load(std::memory_order_relaxed),
            .consumers = view_.consumers(),
            .abandoned = view_.reader().abandoned.load(std::memory_order_relaxed)};
  }

 private:
  uint64_t batches() const { return view_.reader().batches.load(std::memory_order_relaxed); }
  uint32_t none() const { return view_.config().consumers_max; }
  uint32_t first_in_the_way() const { return view_.in_the_way(batches()); }

  Status check_usable(std::string_view doing) const {
    if (lock_.held()) return {};
    return make_error(StatusCode::kCancelled,
                      "{}: this process is a fork of the one that made the ring; make another",
                      doing);
  }

  // Waits until ready(). Checks periodically whether the attached consumers live.
  template <class Ready>
  bool wait_until(const Ready& ready, Time deadline) {
    while (true) {
      const Time look = std::min(deadline, deadline_in(base::kLivenessInterval));
      if (view_.reader().released.wait_until(ready, look)) return true;
      for (uint32_t i = 0; i < none(); ++i) drop_if_dead(i);
      if (ready()) return true;
      if (look == deadline || base::launcher_watch().has_ended()) return false;
    }
  }

  void drop_if_dead(uint32_t i) const {
    if (view_.consumer(i).state.load(std::memory_order_seq_cst) == data::ConsumerState::kGone) {
      return;
    }
    const int role = shm::learner_role(static_cast<int>(i));
    if (shm::role_is_held(segment_.fd(), role)) return;
    // The lock keeps new consumers out of this place. If acquiring it fails, a new one has the
    // place.
    if (shm::RoleLock::acquire(segment_.fd(), role).ok()) view_.leave(i);
  }

  Status late(std::string_view doing, uint32_t who) const {
    FFDL_RETURN_IF_ERROR(base::launcher_watch().check("ring of batches"));
    const uint32_t there = view_.consumers();
    if (there == 0 || who == none()) {
      return make_error(StatusCode::kTimeout,
                        "{}: {} consumers were attached by the deadline, and {} are needed; wait "
                        "longer, or start more consumers",
                        doing, there, batches() == 0 ? consumers_ : 1);
    }
    return make_error(StatusCode::kTimeout,
                      "{}: consumer {} of {} had not released a batch by the deadline; wait "
                      "longer, find out why it is slow, or use more than {} slots",
                      doing, who, there, view_.config().slots);
  }

  const shm::Segment segment_;
  const data::BatchRingView view_;
  const shm::RoleLock lock_;
  const uint32_t consumers_;
  bool finished_ = false;
  uint64_t told_ = 0;  // abandoned batches that were reported
  std::atomic<uint64_t> waited_ = 0;
};

Result<std::unique_ptr<BatchRing>> BatchRing::create(const SampleFormat& format,
                                                     const BatchRingOptions& options) {
  if (options.slots == 0 || options.slots > base::kRingSlotsMax || options.slot_bytes == 0 ||
      options.slot_bytes > base::kRingSlotBytesMax || options.consumers == 0 ||
      options.consumers > options.consumers_max ||
      options.consumers_max > base::kRingConsumersMax) {
    return invalid_argument(
        "make a ring of batches: {} slots of {} bytes, {} of {} consumers; give 1 to {} slots of 1 "
        "to {} bytes, and 1 to {} consumers, not more than consumers_max",
        options.slots, options.slot_bytes, options.consumers, options.consumers_max,
        base::kRingSlotsMax, base::kRingSlotBytesMax, base::kRingConsumersMax);
  }
  FFDL_ASSIGN_OR_RETURN(
      const data::BatchRingConfig config,
      data::make_ring_config(format, options.slots, options.slot_bytes, options.consumers_max));
  FFDL_ASSIGN_OR_RETURN(shm::Segment segment, data::create_batch_ring(config));
  FFDL_ASSIGN_OR_RETURN(const data::BatchRingView view, data::view_of(segment));
  FFDL_ASSIGN_OR_RETURN(shm::RoleLock lock, shm::RoleLock::acquire(segment.fd(), shm::kOwnerRole));
  auto impl = std::make_unique<Impl>(std::move(segment), view, std::move(lock), options.consumers);
  return std::unique_ptr<BatchRing>(new BatchRing(std::move(impl)));
}

BatchRing::BatchRing(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BatchRing::~BatchRing() = default;

std::string BatchRing::place() const { return impl_->place(); }
Status BatchRing::put(const DataBatch& batch, Time deadline) { return impl_->put(batch, deadline); }
Status BatchRing::wait_used(Time deadline) { return impl_->wait_used(deadline); }
void BatchRing::finish() { impl_->finish(); }
BatchRingStats BatchRing::stats() const { return impl_->stats(); }

}  // namespace ffdl
