#include <algorithm>
#include <deque>
#include <utility>

#include "base/errors.h"
#include "base/launcher_watch.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "data/ring/batch_ring_layout.h"
#include "ffdl/data/batch_ring.h"
#include "shm/liveness.h"
#include "shm/segment_place.h"

namespace ffdl {

using base::make_error;

// The place of one consumer in a ring, kept until the consumer and all of its batches are gone.
class BatchConsumer::Impl {
 public:
  Impl(shm::Segment segment, data::BatchRingView view, shm::RoleLock lock, uint32_t consumer)
      : segment_(std::move(segment)),
        view_(view),
        format_(data::format_of(view.config())),
        lock_(std::move(lock)),
        consumer_(consumer),
        next_(view_.enter(consumer)),
        oldest_(next_) {}
  ~Impl() {
    if (lock_.held()) view_.leave(consumer_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const SampleFormat& format() const { return format_; }

  // Waits until the next batch is published. Returns false after the last one.
  Result<bool> wait_for_next(Time deadline) {
    if (!lock_.held()) {
      return make_error(
          StatusCode::kCancelled,
          "take a batch: this process is a fork of the one that attached; attach in the child");
    }
    const auto is_over = [&] {
      return view_.reader().state.load(std::memory_order_seq_cst) != data::RingState::kOpen;
    };
    view_.ask(consumer_, next_);
    while (!is_there()) {
      const Time look = std::min(deadline, deadline_in(base::kLivenessInterval));
      view_.reader().filled.wait_until([&] { return is_there() || is_over(); }, look);
      // Checks for a dead reader before the last check for a batch, so that a batch put before the
      // death is found.
      const bool is_dead = !shm::role_is_held(segment_.fd(), shm::kOwnerRole);
      const auto state = view_.reader().state.load(std::memory_order_seq_cst);
      if (is_there()) break;
      if (state == data::RingState::kFinished) return false;
      // The other process may have ended with the launcher.
      FFDL_RETURN_IF_ERROR(base::launcher_watch().check_now("consumer of a ring of batches"));
      if (state == data::RingState::kGivenUp || is_dead) {
        return make_error(
            StatusCode::kPeerLost,
            "take batch {}: the process that fills the ring {}; attach to another ring", next_,
            state == data::RingState::kGivenUp ? "ended it without finish()" : "is gone");
      }
      if (look == deadline) {
        return make_error(StatusCode::kTimeout,
                          "take batch {}: the deadline passed before it was put; wait longer",
                          next_);
      }
    }
    return true;
  }

  // Fills the next batch, which refers to `samples`.
  Status take(DataBatch& batch, std::vector<std::span<const std::byte>>& samples) {
    FFDL_ASSIGN_OR_RETURN(batch, view_.read(next_, samples));
    batch.number = next_++;
    const base::MutexLock lock(mutex_);
    held_.push_back(true);
    return {};
  }

  void release(uint64_t number) {
    if (!lock_.held()) return;  // a copy in a forked child
    const base::MutexLock lock(mutex_);
    held_[static_cast<size_t>(number - oldest_)] = false;
    if (held_.front()) return;
    while (!held_.empty() && !held_.front()) {
      held_.pop_front();
      ++oldest_;
    }
    view_.release(consumer_, oldest_);
  }

 private:
  bool is_there() const {
    // Pairs with the store in put(): the contents of the slot are visible.
    return view_.reader().batches.load(std::memory_order_seq_cst) > next_;
  }

  const shm::Segment segment_;
  const data::BatchRingView view_;
  const SampleFormat format_;
  const shm::RoleLock lock_;
  const uint32_t consumer_;
  uint64_t next_;
  base::Mutex mutex_;
  uint64_t oldest_ FFDL_GUARDED_BY(mutex_);          // the first batch that is held
  std::deque<bool> held_ FFDL_GUARDED_BY(mutex_){};  // for that batch and later ones
};

Result<std::unique_ptr<BatchConsumer>> BatchConsumer::attach(std::string_view place) {
  const shm::SegmentPlace where = shm::segment_place_of(std::string(place));
  if (where == shm::SegmentPlace()) {
    return base::invalid_argument(
        "attach to a ring of batches: '{}' is not the place of one; give the result of "
        "BatchRing::place()",
        place);
  }
  FFDL_ASSIGN_OR_RETURN(shm::Segment segment,
                        open_segment(where, shm::SegmentKind::kBatchRing, data::kBatchRingLayout));
  FFDL_ASSIGN_OR_RETURN(const data::BatchRingView view, data::view_of(segment));
  for (uint32_t i = 0; i < view.config().consumers_max; ++i) {
    auto lock = shm::RoleLock::acquire(segment.fd(), shm::learner_role(static_cast<int>(i)));
    if (lock.status().code() == StatusCode::kConflict) continue;
    FFDL_RETURN_IF_ERROR(lock.status());
    // Shared with the batches that it returns; any of them may be the last to go.
    auto impl = std::make_shared<Impl>(std::move(segment), view, std::move(lock).value(), i);
    return std::unique_ptr<BatchConsumer>(new BatchConsumer(std::move(impl)));
  }
  return make_error(StatusCode::kExhausted,
                    "attach to a ring of batches of process {}: {} consumers are attached; raise "
                    "consumers_max",
                    where.pid, view.config().consumers_max);
}

BatchConsumer::BatchConsumer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
BatchConsumer::~BatchConsumer() = default;

const SampleFormat& BatchConsumer::format() const { return impl_->format(); }

Result<std::shared_ptr<const DataBatch>> BatchConsumer::next(Time deadline) {
  // Keeps the place of the consumer, and releases the slot of a batch that was filled.
  struct Held {
    explicit Held(std::shared_ptr<Impl> its_impl) : impl(std::move(its_impl)) {}
    ~Held() {
      if (batch.bytes.data() != nullptr) impl->release(batch.number);
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

    const std::shared_ptr<Impl> impl;
    DataBatch batch{};
    std::vector<std::span<const std::byte>> samples{};
  };
  FFDL_ASSIGN_OR_RETURN(const bool is_there, impl_->wait_for_next(deadline));
  if (!is_there) return std::shared_ptr<const DataBatch>();
  const auto held = std::make_shared<Held>(impl_);
  FFDL_RETURN_IF_ERROR(impl_->take(held->batch, held->samples));
  return std::shared_ptr<const DataBatch>(held, &held->batch);
}

}  // namespace ffdl
