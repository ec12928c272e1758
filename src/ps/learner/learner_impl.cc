#include "ps/learner/learner_impl.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "base/check.h"
#include "base/errors.h"
#include "base/half_kernels.h"
#include "base/launcher_watch.h"
#include "base/limits.h"
#include "ffdl/runtime.h"
#include "ps/learner/transfer.h"
#include "ps/rules/gradient_kernels.h"
#include "ps/segment/last_record.h"
#include "ps/segment/open_waiting.h"
#include "ps/segment/pull.h"

namespace ffdl {

using base::invalid_argument;
using base::make_error;

namespace {

std::string shown(const SampleRange& range) {
  return fmt::format("[{}, {}) of partition {}", range.begin, range.end, range.partition);
}

std::string shown(std::span<const SampleRange> samples) {
  return samples.empty() ? "(none)" : shown(samples.front());
}

// Returns the parameter to which the value at `index` belongs.
uint64_t parameter_at(std::span<const ps::TouchedRange> ranges, uint64_t index) {
  for (const ps::TouchedRange& range : ranges) {
    if (index < range.end - range.begin) return range.begin + index;
    index -= range.end - range.begin;
  }
  return index;
}

}  // namespace

Learner::Impl::Impl(std::shared_ptr<const shm::Segment> segment, ps::Region region,
                    shm::RoleLock lock, int slot)
    : segment_(std::move(segment)),
      region_(region),
      config_(region_.config()),
      lock_(std::move(lock)),
      l_(slot),
      owner_(system_runtime().random() | 1),  // not 0, which no learner has
      words_(region_.learner(slot)),
      pending_(config_.ranges_max),
      whole_records_(config_.learners_max) {
  enter();
}

Learner::Impl::~Impl() {
  transfer_.reset();
  device_.reset();
  if (lock_.held()) leave();
}

// Begins a new incarnation. The last one's publication remains, and its unpublished buffer is void.
// The sequence continues, never from 1. A server may not have noticed yet that the last incarnation
// died.
void Learner::Impl::enter() {
  ps::reclaim_dead_learner(*segment_, region_, l_);
  words_.pid.store(getpid(), std::memory_order_relaxed);
  words_.incarnation.fetch_add(1, std::memory_order_relaxed);
  ps::change_owner(region_, l_, owner_);
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
  leave_bounds();
  lock_.release();
  region_.server().progress.ring();  // its roles are free
}

// Removes this learner from staleness bounds and rounds: no learner waits for it.
void Learner::Impl::leave_bounds() {
  words_.attached.store(0, std::memory_order_seq_cst);
  region_.server().progress.ring();
  region_.server().work.ring();
}

// Joins bounds and rounds as a newcomer that is not behind the others. All of its publications are
// folded.
void Learner::Impl::enter_bounds() {
  const uint64_t others = slowest_clock();
  if (others != std::numeric_limits<uint64_t>::max()) clock_ = std::max(clock_, others);
  const uint64_t pub = words_.pub.load(std::memory_order_relaxed);
  words_.clock[pub & 1].store(clock_, std::memory_order_relaxed);
  words_.attached.store(1, std::memory_order_seq_cst);
}

Status Learner::Impl::check_usable(std::string_view doing) const {
  if (lock_.held()) return check_records(doing);
  return make_error(
      StatusCode::kCancelled,
      "{}: learner {} is detached, or this process is a fork of the one that attached; "
      "attach again",
      doing, l_);
}

Status Learner::Impl::check_launcher() const {
  return base::launcher_watch().check("learner {} of parameter server '{}'", l_, segment_->name());
}

Status Learner::Impl::server_is_gone(std::string_view doing) const {
  FFDL_RETURN_IF_ERROR(base::launcher_watch().check_now("learner {} of parameter server '{}'", l_,
                                                        segment_->name()));
  return make_error(StatusCode::kCancelled, "{}: parameter server '{}' has ended", doing,
                    segment_->name());
}

ps::GradientBuffer Learner::Impl::own_buffer() const {
  return region_.gradient(l_, words_.pub.load(std::memory_order_relaxed) + 1);
}

// Returns true if the other buffer may be written. Pairs with the shards' stores to folded, which
// come after their last access to the buffer.
bool Learner::Impl::other_buffer_is_free() const {
  return region_.folded_everywhere(l_) == words_.pub.load(std::memory_order_relaxed);
}

// Returns the number of folded mini-batches of the slowest other learner; the largest number if
// there is no other. A dead learner no longer counts once its published gradient is folded and its
// death is proved.
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
  FFDL_RETURN_IF_ERROR(check_launcher());
  if (!pending_.empty()) FFDL_RETURN_IF_ERROR(publish_if_free().status());
  if (config_.synchrony == Synchrony::kAsync) return {};
  Status failure;
  bool waited = false;
  ps::ServerWords& server = region_.server();
  const auto ready = [&] {
    if (server.closing.load(std::memory_order_seq_cst) != 0)
      failure = server_is_gone("begin a mini-batch");
    if (failure.ok()) failure = check_launcher();
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
      "is {}; wait longer, or check why that learner is slow (a learner that ends must detach)",
      l_, clock_, slowest_clock(), config_.staleness);
}

Result<std::span<float>> Learner::Impl::gradient_slot(Time deadline) {
  FFDL_RETURN_IF_ERROR(begin_mini_batch(deadline));
  const bool in_slot = pending_.mini_batches == 0 && config_.gradient_type == DType::kFloat32;
  given_ = in_slot ? own_buffer().floats() : staging();
  return std::span<float>(given_, config_.parameters);
}

float* Learner::Impl::staging() {
  if (!staging_) {
    const size_t bytes = region_.offsets().padded * sizeof(float);
    staging_.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
    std::memset(staging_.get(), 0, bytes);  // page faults occur now, not in a later mini-batch
  }
  return staging_.get();
}

Status Learner::Impl::check_dense(const Gradient& gradient) const {
  if (gradient.form() != Gradient::Form::kDense) return {};
  if (!ps::is_gradient_type(gradient.type())) {
    return invalid_argument("push a gradient of {}: give float32, bfloat16 or float16",
                            to_string(gradient.type()));
  }
  if (gradient.count() == config_.parameters) return {};
  return invalid_argument(
      "push a gradient of {} elements: the server has {} parameters; give one for each",
      gradient.count(), config_.parameters);
}

Result<PushResult> Learner::Impl::push(const Gradient& gradient,
                                       std::span<const SampleRange> samples, uint64_t version) {
  FFDL_RETURN_IF_ERROR(check_usable("push"));
  FFDL_RETURN_IF_ERROR(check_launcher());
  switch (gradient.form()) {
    case Gradient::Form::kSlot:
      return push_slot(samples, version);
    case Gradient::Form::kDense:
      return push_dense(gradient, samples, version);
    case Gradient::Form::kSparse:
      return push_sparse(gradient, samples, version);
  }
  return invalid_argument("push: the gradient has no form; make it with the functions of Gradient");
}

Result<PushResult> Learner::Impl::push_slot(std::span<const SampleRange> samples,
                                            uint64_t version) {
  if (given_ == nullptr) {
    return invalid_argument(
        "push: no gradient_slot() since the last push; ask for one, or push a span");
  }
  // False if a flush() meanwhile published skipped samples from the own buffer.
  const bool in_slot = config_.gradient_type == DType::kFloat32 && given_ == own_buffer().floats();
  return take_dense({given_, config_.parameters}, samples, version, in_slot);
}

Result<PushResult> Learner::Impl::push_dense(const Gradient& gradient,
                                             std::span<const SampleRange> samples,
                                             uint64_t version) {
  FFDL_RETURN_IF_ERROR(check_dense(gradient));
  if (gradient.type() == DType::kFloat32) {
    return take_dense({static_cast<const float*>(gradient.values()), gradient.count()}, samples,
                      version, false);
  }
  float* const floats = staging();
  base::widen(gradient.type(), static_cast<const uint16_t*>(gradient.values()), floats,
              gradient.count());
  return take_dense({floats, gradient.count()}, samples, version, false);
}

Result<PushResult> Learner::Impl::push_sparse(const Gradient& gradient,
                                              std::span<const SampleRange> samples,
                                              uint64_t version) {
  if (config_.rows_max == 0) {
    return invalid_argument(
        "push a sparse gradient: the server takes dense ones only; create it with rows_max, the "
        "most rows that one gradient touches");
  }
  FFDL_RETURN_IF_ERROR(sparse_.stage(gradient.tables(), gradient.parts(), config_.parameters));
  return take_gradient({.values = sparse_.values(), .ranges = sparse_.ranges()}, samples, version);
}

Result<PushResult> Learner::Impl::take_dense(std::span<const float> gradient,
                                             std::span<const SampleRange> samples, uint64_t version,
                                             bool in_slot) {
  const ps::TouchedRange all{0, config_.parameters};
  return take_gradient({.values = gradient, .ranges = {&all, 1}, .in_slot = in_slot}, samples,
                       version);
}

Status Learner::Impl::check_names_samples(std::span<const SampleRange> samples) {
  const bool has_any = std::ranges::any_of(
      samples, [](const SampleRange& range) { return range.begin != range.end; });
  if (has_any) return {};
  return invalid_argument(
      "push samples {}: no sample is in them, and only samples change the weights; name those that "
      "made the gradient, or leave out the push if there are none",
      shown(samples));
}

Status Learner::Impl::check_samples(std::span<const SampleRange> samples) const {
  std::map<uint32_t, uint64_t> next_positions;  // after the earlier ranges of this push
  for (const SampleRange& range : samples) {
    if (range.partition >= config_.partitions || range.begin > range.end) {
      return invalid_argument(
          "push samples {}: there are {} partitions; name one of them, and a range that begins "
          "before it ends",
          shown(range), config_.partitions);
    }
    if (range.begin == range.end) continue;
    const auto [next, first_time] = next_positions.try_emplace(range.partition, 0);
    if (first_time) {
      const auto known = next_position_.find(range.partition);
      next->second = known != next_position_.end() ? known->second : committed(range.partition);
      FFDL_RETURN_IF_ERROR(check_records("push"));
    }
    if (range.begin < next->second) {
      return invalid_argument(
          "push samples {}: all before {} are committed already; begin there (see committed())",
          shown(range), next->second);
    }
    next->second = range.end;
  }
  if (!pending_.has_room_for(samples)) {
    return make_error(
        StatusCode::kExhausted,
        "push samples {}: the server is late, and one gradient names at most {} separate ranges; "
        "flush() and push again, push neighbouring samples, or raise ranges_max",
        shown(samples), config_.ranges_max);
  }
  return {};
}

void Learner::Impl::note_positions(std::span<const SampleRange> samples) {
  for (const SampleRange& range : samples) {
    if (range.begin != range.end) next_position_[range.partition] = range.end;
  }
}

// Decides before publication whether the gradient counts, and the factor that clips its norm. All
// shards must do the same.
Result<Learner::Impl::Verdict> Learner::Impl::judge(const ps::IncomingGradient& incoming,
                                                    std::span<const SampleRange> samples) const {
  const std::span<const float> values = incoming.values;
  const bool looks = config_.non_finite != NonFinite::kAccept;
  Verdict verdict;
  if (!looks && config_.clip_norm == 0) return verdict;
  const ps::GradientFacts facts = ps::inspect_gradient(values.data(), values.size());
  const float limit = base::largest_finite(config_.gradient_type);
  const bool rounded = config_.gradient_type != DType::kFloat32;
  if (looks && rounded && facts.finite) {
    verdict.largest = ps::largest_magnitude(values.data(), values.size());
  }
  if (looks && (!facts.finite || verdict.largest > limit)) {
    verdict.skip = config_.non_finite == NonFinite::kSkip;
    if (verdict.skip) return verdict;
    const uint64_t where = ps::find_beyond(values.data(), values.size(), limit);
    return invalid_argument(
        "push samples {}: element {} of the gradient is {}; lower the learning rate or check these "
        "samples (non_finite=skip drops and counts such gradients)",
        shown(samples), parameter_at(incoming.ranges, where), values[where]);
  }
  const double norm = std::sqrt(facts.square_sum);
  if (config_.clip_norm > 0 && norm > double{config_.clip_norm}) {
    verdict.clip_scale = static_cast<float>(double{config_.clip_norm} / norm);
  }
  return verdict;
}

// Checks that the pending gradient has room for this gradient.
Status Learner::Impl::check_room(const ps::IncomingGradient& incoming, double largest) const {
  if (pending_.mini_batches > 0 && config_.gradient_type == DType::kFloat16 &&
      pending_.largest + largest > double{base::largest_finite(config_.gradient_type)}) {
    return make_error(
        StatusCode::kExhausted,
        "push: the server is late, and the sum of these gradients may leave the range "
        "of float16 (magnitudes up to {} and {}); flush() and push again, or use "
        "bfloat16",
        pending_.largest, largest);
  }
  const std::vector<ps::TouchedRange> touched = pending_.touched_with(incoming.ranges);
  if (is_dense(touched) || touched.size() <= config_.rows_max) return {};
  return make_error(StatusCode::kExhausted,
                    "push a sparse gradient: together with the pushes that wait for the server it "
                    "touches {} separate rows or parts, and rows_max is {}; {}",
                    touched.size(), config_.rows_max,
                    pending_.mini_batches > 0 ? "flush() and push again, or raise rows_max"
                                              : "push fewer rows, or raise rows_max");
}

bool Learner::Impl::is_dense(std::span<const ps::TouchedRange> touched) const {
  return touched.size() == 1 && touched[0] == ps::TouchedRange{0, config_.parameters};
}

Result<PushResult> Learner::Impl::take_gradient(ps::IncomingGradient incoming,
                                                std::span<const SampleRange> samples,
                                                uint64_t version) {
  FFDL_RETURN_IF_ERROR(check_names_samples(samples));
  if (!incoming.in_slot && !pending_.empty()) FFDL_RETURN_IF_ERROR(publish_if_free().status());
  FFDL_RETURN_IF_ERROR(check_samples(samples));
  FFDL_ASSIGN_OR_RETURN(const Verdict verdict, judge(incoming, samples));
  if (region_.server().closing.load(std::memory_order_seq_cst) != 0) return server_is_gone("push");
  if (!verdict.skip) {
    FFDL_RETURN_IF_ERROR(check_room(incoming, verdict.largest));
    incoming.scale = verdict.clip_scale;
    pending_.store(own_buffer(), incoming);
    pending_.largest += verdict.largest;
  }
  const bool joins_others = !pending_.empty();
  pending_.add(samples, version, verdict.skip);
  note_positions(samples);
  given_ = nullptr;
  ++clock_;
  ++stats_.mini_batches;
  if (verdict.skip) ++stats_.skipped;
  if (joins_others) ++stats_.accumulated;
  FFDL_ASSIGN_OR_RETURN(const bool published, publish_if_free());
  if (verdict.skip) return PushResult::kSkipped;
  return published ? PushResult::kPublished : PushResult::kAccumulated;
}

// Checks that no other learner has taken the slot, which the lock of the slot excludes.
Status Learner::Impl::check_owns_slot() const {
  const uint64_t owner = words_.owner.load(std::memory_order_relaxed);
  if (owner == owner_) return {};
  return make_error(StatusCode::kCorrupt,
                    "publish a gradient: slot {} of segment '{}' belongs to another learner (pid "
                    "{}); something wrote over the segment: restore from a checkpoint",
                    l_, segment_->name(), words_.pid.load());
}

void Learner::Impl::write_meta(uint64_t sequence) {
  FFDL_CHECK(!pending_.empty(), "a publication has a gradient");
  const bool dense = is_dense(pending_.touched);
  ps::Meta meta = {};
  meta.sequence = sequence;
  meta.owner = owner_;
  meta.mini_batches = pending_.mini_batches;
  meta.skipped = pending_.skipped;
  meta.samples = pending_.samples;
  meta.base_version = pending_.base_version;
  meta.clip_scale = pending_.clip_scale;
  meta.form = dense ? ps::GradientForm::kDense : ps::GradientForm::kSparse;
  const std::span<const ps::TouchedRange> all(pending_.touched);
  ps::write_record(region_, l_, meta, pending_.ranges, dense ? all.first(0) : all);
}

// Commits the pending gradient if the server is done with the other buffer. The store to pub is the
// commit. Gradient and record are complete before it, and nothing is added after it.
Result<bool> Learner::Impl::publish_if_free() {
  if (!other_buffer_is_free()) return false;
  FFDL_RETURN_IF_ERROR(check_owns_slot());
  const uint64_t sequence = words_.pub.load(std::memory_order_relaxed) + 1;
  write_meta(sequence);
  words_.clock[sequence & 1].store(clock_, std::memory_order_release);
  // A server that ends sets `closing`, waits while `publishing`, then folds all publications.
  words_.publishing.store(1, std::memory_order_seq_cst);
  if (region_.server().closing.load(std::memory_order_seq_cst) != 0) {
    words_.publishing.store(0, std::memory_order_seq_cst);
    return server_is_gone("publish a gradient");
  }
  words_.pub.store(sequence, std::memory_order_seq_cst);  // pairs with ShardWorker::has_published
  words_.publishing.store(0, std::memory_order_release);
  region_.server().work.ring();
  if (told_) told_({l_, sequence, std::move(pending_.ranges)});
  pending_.clear();
  ++stats_.published;
  give_up_left();
  return true;
}

Result<uint64_t> Learner::Impl::pull(std::span<float> weights, PullMode mode) const {
  FFDL_RETURN_IF_ERROR(check_usable("pull"));
  FFDL_RETURN_IF_ERROR(check_launcher());
  FFDL_RETURN_IF_ERROR(ps::check_pull_size(region_, weights.size()));
  return ps::pull_weights(region_, weights, mode);
}

Result<uint64_t> Learner::Impl::pull_rows(std::span<const RowWeights> tables) const {
  FFDL_RETURN_IF_ERROR(check_usable("pull rows"));
  for (const RowWeights& table : tables) {
    FFDL_RETURN_IF_ERROR(ps::check_pull_rows(region_, table));
  }
  const uint64_t version = region_.version();
  for (const RowWeights& table : tables) ps::copy_rows(region_, table, table.values.data());
  return version;
}

Status Learner::Impl::flush(Time deadline) {
  FFDL_RETURN_IF_ERROR(check_usable("flush"));
  ps::ServerWords& server = region_.server();
  Status failure;
  const auto ready = [&] {
    if (!pending_.empty()) failure = publish_if_free().status();
    if (!failure.ok() || (pending_.empty() && other_buffer_is_free())) return true;
    if (server.ended.load(std::memory_order_seq_cst) != 0) failure = server_is_gone("flush");
    if (failure.ok()) failure = check_launcher();
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

const std::string& Learner::Impl::not_pinned() const {
  static const std::string none;
  return device_ ? device_->not_pinned() : none;
}

namespace {

// Locks a free slot: slots that ended well first, then those of dead learners.
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

Result<std::unique_ptr<Learner::Impl>> Learner::Impl::attach_slot(
    std::shared_ptr<const shm::Segment> segment, Time deadline, int wanted_slot) {
  FFDL_ASSIGN_OR_RETURN(ps::Region region, ps::read_region(*segment));
  if (wanted_slot != kAnySlot && (wanted_slot < 0 || wanted_slot >= region.learners_max())) {
    return invalid_argument("attach to '{}': slot {}; there are {}, from 0", segment->name(),
                            wanted_slot, region.learners_max());
  }
  while (true) {
    FFDL_RETURN_IF_ERROR(base::launcher_watch().check("learner of '{}'", segment->name()));
    int slot = wanted_slot;
    Result<shm::RoleLock> lock =
        slot == kAnySlot ? lock_any_slot(*segment, region, slot)
                         : shm::RoleLock::acquire(segment->fd(), shm::learner_role(slot));
    if (lock.ok()) {
      FFDL_RETURN_IF_ERROR(segment->check_linked());
      FFDL_RETURN_IF_ERROR(ps::check_owner(region, slot));
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

// Finds the device first: without one no slot is taken.
Result<std::unique_ptr<Learner>> Learner::Impl::attach(std::shared_ptr<const shm::Segment> segment,
                                                       Time deadline, const LearnerOptions& options,
                                                       std::unique_ptr<base::DeviceSide> side) {
  int device = 0;
  if (options.device) {
    if (!side) side = base::gpu_side();
    FFDL_ASSIGN_OR_RETURN(const int in_use, side->in_use());
    device = *options.device < 0 ? in_use : *options.device;
  }
  FFDL_ASSIGN_OR_RETURN(std::unique_ptr<Impl> impl,
                        attach_slot(std::move(segment), deadline, options.slot));
  if (options.device) {
    FFDL_ASSIGN_OR_RETURN(
        impl->device_, ps::DeviceTransfer::begin(impl->region_, impl->l_, std::move(side), device));
  }
  return std::unique_ptr<Learner>(new Learner(std::move(impl)));
}

}  // namespace ffdl
