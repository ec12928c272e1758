#include <algorithm>
#include <deque>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "data/batch_ring_layout.h"
#include "ffdl/batch_ring.h"
#include "shm/liveness.h"
#include "shm/segment_place.h"

namespace ffdl {

using base::make_error;

// The place of one consumer in a ring, until it and all of its batches are gone.
class SharedBatch::Owner {
 public:
  Owner(shm::Segment segment, data::BatchRingView view, shm::RoleLock lock, uint32_t consumer)
      : segment_(std::move(segment)),
        view_(view),
        format_(data::format_of(view.config())),
        lock_(std::move(lock)),
        consumer_(consumer),
        next_(view_.enter(consumer)),
        oldest_(next_) {}
  ~Owner() {
    if (lock_.held()) view_.leave(consumer_);
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  const SampleFormat& format() const { return format_; }

  // Until the next batch is there; false after the last one.
  Result<bool> wait_for_next(Time deadline) {
    if (!lock_.held()) {
      return make_error(StatusCode::kCancelled,
                        "take a batch: this process is a fork of the one that attached; attach "
                        "in it");
    }
    const auto is_over = [&] {
      return view_.reader().state.load(std::memory_order_seq_cst) != data::RingState::kOpen;
    };
    view_.ask(consumer_, next_);
    while (!is_there()) {
      const Time look = std::min(deadline, deadline_in(base::kLivenessInterval));
      view_.reader().filled.wait_until([&] { return is_there() || is_over(); }, look);
      // Asked before whether a batch is there: what was put before the end is.
      const bool is_dead = !shm::role_is_held(segment_.fd(), shm::kOwnerRole);
      const auto state = view_.reader().state.load(std::memory_order_seq_cst);
      if (is_there()) break;
      if (state == data::RingState::kFinished) return false;
      if (state == data::RingState::kGivenUp || is_dead) {
        return make_error(StatusCode::kPeerLost,
                          "take batch {}: the process that reads {}; attach to the ring of another",
                          next_, state == data::RingState::kGivenUp ? "gave up" : "is gone");
      }
      if (look == deadline) {
        return make_error(StatusCode::kTimeout,
                          "take batch {}: it is not there by the deadline; wait longer", next_);
      }
    }
    return true;
  }

  // Fills a batch of this owner.
  Status take(SharedBatch& batch) {
    FFDL_ASSIGN_OR_RETURN(batch.batch_, view_.read(next_, batch.samples_));
    batch.number_ = next_++;
    const base::MutexLock lock(mutex_);
    held_.push_back(true);
    return {};
  }

  void release(uint64_t number) {
    if (!lock_.held()) return;  // a copy of it in a forked child
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
    // Pairs with the store in put(): what was written before can be read.
    return view_.reader().batches.load(std::memory_order_seq_cst) > next_;
  }

  const shm::Segment segment_;
  const data::BatchRingView view_;
  const SampleFormat format_;
  const shm::RoleLock lock_;
  const uint32_t consumer_;
  uint64_t next_;
  base::Mutex mutex_;
  uint64_t oldest_ FFDL_GUARDED_BY(mutex_);          // that is held
  std::deque<bool> held_ FFDL_GUARDED_BY(mutex_){};  // that one, and those after it
};

Result<std::unique_ptr<BatchConsumer>> BatchConsumer::attach(std::string_view place) {
  const shm::SegmentPlace where = shm::segment_place_of(std::string(place));
  if (where == shm::SegmentPlace()) {
    return base::invalid_argument(
        "attach to a ring of batches: '{}' is no place of one; give what BatchRing::place() says",
        place);
  }
  FFDL_ASSIGN_OR_RETURN(shm::Segment segment,
                        open_segment(where, shm::SegmentKind::kBatchRing, data::kBatchRingLayout));
  FFDL_ASSIGN_OR_RETURN(const data::BatchRingView view, data::view_of(segment));
  for (uint32_t i = 0; i < view.config().consumers_max; ++i) {
    auto lock = shm::RoleLock::acquire(segment.fd(), shm::learner_role(static_cast<int>(i)));
    if (lock.status().code() == StatusCode::kConflict) continue;
    FFDL_RETURN_IF_ERROR(lock.status());
    // Shared with the batches that it gives, any of which may be the last to go.
    auto owner =
        std::make_shared<SharedBatch::Owner>(std::move(segment), view, std::move(lock).value(), i);
    return std::unique_ptr<BatchConsumer>(new BatchConsumer(std::move(owner)));
  }
  return make_error(StatusCode::kExhausted,
                    "attach to a ring of batches of process {}: {} consumers are attached; raise "
                    "consumers_max",
                    where.pid, view.config().consumers_max);
}

BatchConsumer::BatchConsumer(std::shared_ptr<SharedBatch::Owner> owner)
    : owner_(std::move(owner)) {}
BatchConsumer::~BatchConsumer() = default;

const SampleFormat& BatchConsumer::format() const { return owner_->format(); }

Result<std::unique_ptr<SharedBatch>> BatchConsumer::next(Time deadline) {
  FFDL_ASSIGN_OR_RETURN(const bool is_there, owner_->wait_for_next(deadline));
  if (!is_there) return std::unique_ptr<SharedBatch>();
  auto batch = std::unique_ptr<SharedBatch>(new SharedBatch(owner_));
  FFDL_RETURN_IF_ERROR(owner_->take(*batch));
  return batch;
}

SharedBatch::SharedBatch(std::shared_ptr<Owner> owner) : owner_(std::move(owner)) {}
SharedBatch::~SharedBatch() {
  if (batch_.bytes.data() != nullptr) owner_->release(number_);
}

}  // namespace ffdl
