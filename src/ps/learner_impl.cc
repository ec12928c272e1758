#include "ps/learner_impl.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "base/errors.h"
#include "base/limits.h"
#include "ps/gradient_kernels.h"
#include "ps/open_waiting.h"
#include "ps/pull.h"
#include "ps/stats.h"
#include "ps/transfer.h"

namespace ffdl {

using base::invalid_argument;
using base::make_error;

namespace {

std::string shown(const SampleRange& range) {
  return fmt::format("[{}, {}) of partition {}", range.begin, range.end, range.partition);
}

}  // namespace

Learner::Impl::Impl(std::shared_ptr<const shm::Segment> segment, ps::Region region,
                    shm::RoleLock lock, int slot)
    : segment_(std::move(segment)),
      region_(std::move(region)),
      config_(region_.config()),
      lock_(std::move(lock)),
      l_(slot),
      words_(region_.learner(slot)),
      pending_(config_.ranges_max) {
  enter();
}

Learner::Impl::~Impl() {
  transfer_.reset();
  if (lock_.held()) leave();
}

// A new incarnation: what the last one published stays, its unpublished buffer is void, and the
// sequence goes on, never from 1.
void Learner::Impl::enter() {
  words_.publishing.store(0, std::memory_order_relaxed);
  words_.pid.store(getpid(), std::memory_order_relaxed);
  words_.incarnation.fetch_add(1, std::memory_order_relaxed);
  const uint64_t pub = words_.pub.load(std::memory_order_relaxed);
  const uint64_t others = slowest_clock();
  if (others != std::numeric_limits<uint64_t>::max()) {
    words_.clock[pub & 1].store(others, std::memory_order_relaxed);
  }
  clock_ = words_.clock[pub & 1].load(std::memory_order_relaxed);
  base_version_ = region_.version();
  words_.attached.store(1, std::memory_order_seq_cst);
}

void Learner::Impl::leave() {
  words_.attached.store(0, std::memory_order_seq_cst);
  region_.server().progress.ring();
  region_.server().work.ring();
  lock_.release();
}

Status Learner::Impl::check_usable(std::string_view doing) const {
  if (lock_.held()) return {};
  return make_error(
      StatusCode::kCancelled,
      "{}: learner {} is detached, or this process is a fork of the one that attached; "
      "attach again",
      doing, l_);
}

Status Learner::Impl::server_is_gone(std::string_view doing) const {
  return make_error(StatusCode::kCancelled, "{}: parameter server '{}' has ended", doing,
                    segment_->name());
}

float* Learner::Impl::own_buffer() const {
  return region_.gradient(l_, words_.pub.load(std::memory_order_relaxed) + 1);
}

// Pairs with the shards' stores to folded, which come after their last look at the buffer.
bool Learner::Impl::other_buffer_is_free() const {
  return region_.folded_everywhere(l_) == words_.pub.load(std::memory_order_relaxed);
}

// Mini-batches of the slowest other learner that are in the weights; the largest number when there
// is no other. A dead one leaves when its published gradient is folded and its death is proved.
uint64_t Learner::Impl::slowest_clock() const {
  uint64_t slowest = std::numeric_limits<uint64_t>::max();
  for (int l = 0; l < region_.learners_max(); ++l) {
    const ps::LearnerWords& words = region_.learner(l);
    if (l == l_) continue;
    const bool counts = words.attached.load(std::memory_order_seq_cst) != 0 ||
                        region_.folded_everywhere(l) < words.pub.load(std::memory_order_acquire);
    if (counts) slowest = std::min(slowest, region_.folded_clock(l));
  }
  return slowest;
}

bool Learner::Impl::within_staleness_bound() const {
  if (config_.synchrony == Synchrony::kBulk && !(pending_.empty() && other_buffer_is_free())) {
    return false;
  }
  const uint64_t slowest = slowest_clock();
  return slowest >= clock_ || clock_ - slowest <= config_.staleness;
}

Status Learner::Impl::begin_mini_batch(Time deadline) {
  FFDL_RETURN_IF_ERROR(check_usable("begin a mini-batch"));
  if (!pending_.empty()) FFDL_RETURN_IF_ERROR(publish_if_free().status());
  if (config_.synchrony == Synchrony::kAsync) return {};
  Status failure;
  bool waited = false;
  ps::ServerWords& server = region_.server();
  const auto ready = [&] {
    if (server.closing.load(std::memory_order_seq_cst) != 0)
      failure = server_is_gone("begin a mini-batch");
    if (failure.ok() && !pending_.empty()) failure = publish_if_free().status();
    if (!failure.ok() || within_staleness_bound()) return true;
    waited = true;
    return false;
  };
  const bool in_time = server.progress.wait_until(ready, deadline);
  if (waited) ++stats_.waits;
  if (!failure.ok() || in_time) return failure;
  return make_error(
      StatusCode::kTimeout,
      "begin a mini-batch: learner {} is at mini-batch {}, the slowest at {} and the bound "
      "is {}; wait longer, or find out why that one is slow (it must detach when it ends)",
      l_, clock_, slowest_clock(), config_.staleness);
}

Result<std::span<float>> Learner::Impl::gradient_slot(Time deadline) {
  FFDL_RETURN_IF_ERROR(begin_mini_batch(deadline));
  if (pending_.mini_batches > 0 && !staging_) {
    const size_t bytes = region_.offsets().padded * sizeof(float);
    staging_.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
    std::memset(staging_.get(), 0, bytes);  // touched now, not in a later mini-batch
  }
  given_ = pending_.mini_batches > 0 ? staging_.get() : own_buffer();
  return std::span<float>(given_, config_.parameters);
}

Result<PushResult> Learner::Impl::push_slot(std::span<const SampleRange> samples) {
  FFDL_RETURN_IF_ERROR(check_usable("push"));
  if (given_ == nullptr) {
    return invalid_argument(
        "push: no gradient_slot() since the last push; ask for one, or push a span");
  }
  // No longer the own buffer when a flush() published skipped samples from it meanwhile.
  const bool in_slot = given_ == own_buffer();
  return take_gradient({given_, config_.parameters}, samples, base_version_, in_slot);
}

Result<PushResult> Learner::Impl::push(std::span<const float> gradient,
                                       std::span<const SampleRange> samples, uint64_t version) {
  FFDL_RETURN_IF_ERROR(check_usable("push"));
  if (gradient.size() != config_.parameters) {
    return invalid_argument("push a gradient of {} floats: the server has {} parameters",
                            gradient.size(), config_.parameters);
  }
  if (!pending_.empty()) FFDL_RETURN_IF_ERROR(publish_if_free().status());
  return take_gradient(gradient, samples, version, false);
}

Status Learner::Impl::check_samples(std::span<const SampleRange> samples) const {
  std::map<uint32_t, uint64_t> next_positions;  // after the ranges before, of this push
  for (const SampleRange& range : samples) {
    if (range.partition >= config_.partitions || range.begin > range.end) {
      return invalid_argument(
          "push samples {}: there are {} partitions, and a range begins before it ends",
          shown(range), config_.partitions);
    }
    if (range.begin == range.end) continue;
    const auto [next, first_time] = next_positions.try_emplace(range.partition, 0);
    if (first_time) {
      const auto known = next_position_.find(range.partition);
      next->second = known != next_position_.end() ? known->second : committed(range.partition);
    }
    if (range.begin < next->second) {
      return invalid_argument(
          "push samples {}: all before {} are committed already; begin there (committed() tells)",
          shown(range), next->second);
    }
    next->second = range.end;
  }
  if (!pending_.has_room_for(samples)) {
    return make_error(
        StatusCode::kExhausted,
        "push samples {}: the server is late, and one gradient names at most {} separate ranges; "
        "flush() and push again, push neighbouring samples, or raise ranges_max",
        shown(samples.front()), config_.ranges_max);
  }
  return {};
}

void Learner::Impl::note_positions(std::span<const SampleRange> samples) {
  for (const SampleRange& range : samples) {
    if (range.begin != range.end) next_position_[range.partition] = range.end;
  }
}

// Decides, before anything is published, whether the gradient counts, and by which factor its norm
// is clipped: the shards must all do the same.
Result<float> Learner::Impl::judge(std::span<const float> gradient,
                                   std::span<const SampleRange> samples, bool& skip) {
  skip = false;
  if (config_.non_finite == NonFinite::kAccept && config_.clip_norm == 0) return 1.0F;
  const ps::GradientFacts facts = ps::inspect_gradient(gradient.data(), gradient.size());
  if (!facts.finite && config_.non_finite != NonFinite::kAccept) {
    skip = config_.non_finite == NonFinite::kSkip;
    if (skip) return 1.0F;
    const uint64_t where = ps::find_non_finite(gradient.data(), gradient.size());
    return invalid_argument(
        "push samples {}: element {} of the gradient is {}; lower the learning rate or look at "
        "these samples (non_finite=skip drops and counts such gradients)",
        samples.empty() ? "(none)" : shown(samples.front()), where, gradient[where]);
  }
  const double norm = std::sqrt(facts.square_sum);
  if (config_.clip_norm == 0 || !(norm > double{config_.clip_norm})) return 1.0F;
  return static_cast<float>(double{config_.clip_norm} / norm);
}

void Learner::Impl::store_gradient(std::span<const float> gradient, float clip_scale,
                                   bool in_slot) {
  if (pending_.mini_batches == 0) {
    // The first mini-batch overwrites: the buffer holds an older gradient, or a dead learner's.
    if (!in_slot) std::memcpy(own_buffer(), gradient.data(), gradient.size_bytes());
    pending_.clip_scale = clip_scale;
    return;
  }
  ps::scale_and_add(own_buffer(), pending_.clip_scale, gradient.data(), clip_scale,
                    gradient.size());
  pending_.clip_scale = 1;
}

Result<PushResult> Learner::Impl::take_gradient(std::span<const float> gradient,
                                                std::span<const SampleRange> samples,
                                                uint64_t version, bool in_slot) {
  FFDL_RETURN_IF_ERROR(check_samples(samples));
  bool skip = false;
  FFDL_ASSIGN_OR_RETURN(const float clip_scale, judge(gradient, samples, skip));
  if (region_.server().closing.load(std::memory_order_seq_cst) != 0) return server_is_gone("push");
  if (!skip) store_gradient(gradient, clip_scale, in_slot);
  const bool joins_others = !pending_.empty();
  pending_.add(samples, version, skip);
  note_positions(samples);
  given_ = nullptr;
  ++clock_;
  ++stats_.mini_batches;
  if (skip) ++stats_.skipped;
  if (joins_others) ++stats_.accumulated;
  FFDL_ASSIGN_OR_RETURN(const bool published, publish_if_free());
  if (skip) return PushResult::kSkipped;
  return published ? PushResult::kPublished : PushResult::kAccumulated;
}

void Learner::Impl::write_meta(uint64_t sequence) {
  const std::span<SampleRange> ranges = region_.ranges(l_, sequence);
  std::copy(pending_.ranges.begin(), pending_.ranges.end(), ranges.begin());
  ps::Meta& meta = region_.meta(l_, sequence);
  meta.sequence = sequence;
  meta.mini_batches = pending_.mini_batches;
  meta.skipped = pending_.skipped;
  meta.samples = pending_.samples;
  meta.base_version = pending_.base_version;
  meta.clip_scale = pending_.clip_scale;
  meta.ranges = static_cast<uint32_t>(pending_.ranges.size());
  meta.checksum = ps::meta_checksum(meta, ranges.first(meta.ranges));
}

// Commits what is pending, if the server is done with the other buffer. The store to pub is the
// commit: gradient and record are complete before it, and nothing is added after it.
Result<bool> Learner::Impl::publish_if_free() {
  if (!other_buffer_is_free()) return false;
  const uint64_t sequence = words_.pub.load(std::memory_order_relaxed) + 1;
  write_meta(sequence);
  words_.clock[sequence & 1].store(clock_, std::memory_order_release);
  // A server that ends sets `closing`, waits while `publishing`, then folds all that is published.
  words_.publishing.store(1, std::memory_order_seq_cst);
  if (region_.server().closing.load(std::memory_order_seq_cst) != 0) {
    words_.publishing.store(0, std::memory_order_seq_cst);
    return server_is_gone("publish a gradient");
  }
  words_.pub.store(sequence, std::memory_order_seq_cst);  // pairs with ShardWorker::has_published
  words_.publishing.store(0, std::memory_order_release);
  region_.server().work.ring();
  pending_.clear();
  ++stats_.published;
  return true;
}

Result<uint64_t> Learner::Impl::pull(std::span<float> weights, PullMode mode) {
  FFDL_RETURN_IF_ERROR(check_usable("pull"));
  FFDL_RETURN_IF_ERROR(ps::check_pull_size(region_, weights.size()));
  return ps::pull_weights(region_, weights, mode);
}

Status Learner::Impl::flush(Time deadline) {
  FFDL_RETURN_IF_ERROR(check_usable("flush"));
  ps::ServerWords& server = region_.server();
  Status failure;
  const auto ready = [&] {
    if (!pending_.empty()) failure = publish_if_free().status();
    if (!failure.ok() || (pending_.empty() && other_buffer_is_free())) return true;
    if (server.ended.load(std::memory_order_seq_cst) != 0) failure = server_is_gone("flush");
    return !failure.ok();
  };
  if (server.progress.wait_until(ready, deadline) || !failure.ok()) return failure;
  const bool alive = shm::role_is_held(segment_->fd(), shm::kOwnerRole);
  return make_error(StatusCode::kTimeout,
                    "flush: the server (pid {}) has not folded all of learner {}'s gradients; {}",
                    server.pid.load(), l_,
                    alive ? "wait longer" : "it is dead: adopt the segment, nothing is lost");
}

Status Learner::Impl::detach(Time deadline) {
  FFDL_RETURN_IF_ERROR(flush(deadline));
  leave();
  return {};
}

// Nobody writes the record of slot l: it is our own, or nobody alive has it.
bool Learner::Impl::slot_is_quiet(int l) const {
  return l == l_ || !shm::role_is_held(segment_->fd(), shm::learner_role(l));
}

uint64_t Learner::Impl::committed(uint32_t partition) const {
  if (partition >= config_.partitions) return 0;
  // Published gradients that are not in the ledger yet, then the ledger: what is folded between the
  // two looks is in the second.
  uint64_t end = 0;
  for (int l = 0; l < region_.learners_max(); ++l) {
    const uint64_t pub = region_.learner(l).pub.load(std::memory_order_acquire);
    if (region_.folded(0, l).load(std::memory_order_acquire) == pub || !slot_is_quiet(l)) continue;
    const ps::Meta& meta = region_.meta(l, pub);
    for (const SampleRange& range :
         region_.ranges(l, pub).first(std::min(meta.ranges, config_.ranges_max))) {
      if (range.partition == partition) end = std::max(end, range.end);
    }
  }
  return std::max(end, ps::read_partition(region_, partition).committed);
}

Result<ps::Transfer*> Learner::Impl::transfer() {
  FFDL_RETURN_IF_ERROR(check_usable("transfer beside compute"));
  if (!transfer_) transfer_ = std::make_unique<ps::Transfer>(*this);
  return transfer_.get();
}

bool Learner::Impl::pushing_beside() const { return transfer_ && transfer_->pushing(); }

namespace {

// Slots that nobody holds: those that ended well first, then those of the dead.
Result<shm::RoleLock> lock_any_slot(const shm::Segment& segment, const ps::Region& region,
                                    int& slot) {
  for (const bool of_the_dead : {false, true}) {
    for (int l = 0; l < region.learners_max(); ++l) {
      if ((region.learner(l).attached.load(std::memory_order_relaxed) != 0) != of_the_dead)
        continue;
      Result<shm::RoleLock> lock = shm::RoleLock::acquire(segment.fd(), shm::learner_role(l));
      slot = l;
      if (lock.ok() || lock.status().code() != StatusCode::kConflict) return lock;
    }
  }
  return make_error(StatusCode::kExhausted, "all {} slots are in use; raise learners_max",
                    region.learners_max());
}

}  // namespace

Result<std::unique_ptr<Learner::Impl>> Learner::Impl::attach(
    std::shared_ptr<const shm::Segment> segment, Time deadline, const LearnerOptions& options) {
  FFDL_ASSIGN_OR_RETURN(ps::Region region, ps::read_region(*segment));
  if (options.slot != kAnySlot && (options.slot < 0 || options.slot >= region.learners_max())) {
    return invalid_argument("attach to '{}': slot {}; there are {}, from 0", segment->name(),
                            options.slot, region.learners_max());
  }
  while (true) {
    int slot = options.slot;
    Result<shm::RoleLock> lock =
        slot == kAnySlot ? lock_any_slot(*segment, region, slot)
                         : shm::RoleLock::acquire(segment->fd(), shm::learner_role(slot));
    if (lock.ok()) {
      FFDL_RETURN_IF_ERROR(segment->check_linked());
      return std::make_unique<Impl>(std::move(segment), region, std::move(lock).value(), slot);
    }
    const StatusCode code = lock.status().code();
    const bool may_change = code == StatusCode::kConflict || code == StatusCode::kExhausted;
    if (!may_change || std::chrono::steady_clock::now() >= deadline) {
      if (code != StatusCode::kConflict) {
        return std::move(lock).status().with_context(
            fmt::format("attach to '{}'", segment->name()));
      }
      return make_error(
          StatusCode::kConflict,
          "attach to '{}': slot {} belongs to a living learner (pid {}); take another, or "
          "kAnySlot",
          segment->name(), slot, region.learner(slot).pid.load());
    }
    std::this_thread::sleep_for(base::kPollInterval);
  }
}

}  // namespace ffdl
