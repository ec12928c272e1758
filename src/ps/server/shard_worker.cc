#include "ps/server/shard_worker.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/limits.h"

namespace ffdl::ps {

Status ShardWorker::run() {
  const bool bulk = config_.synchrony == Synchrony::kBulk;
  if (device_) {
    FFDL_RETURN_IF_ERROR(device_->use());
    FFDL_RETURN_IF_ERROR(device_->load());
  }
  while (!control_.failed()) {
    serve_cut();
    if (bulk && k_ == 0) form_round();
    FFDL_ASSIGN_OR_RETURN(const bool folded, bulk ? fold_next_round() : fold_what_is_there());
    if (folded) continue;
    if (control_.stopping() && drained()) break;
    region_.server().work.wait_until([this] { return has_work(); },
                                     deadline_in(base::kFutexSleepMax));
  }
  serve_cut();
  return {};
}

Status ShardWorker::leave_device() {
  fold_.leave_device();
  device_.reset();
  return fold_.recover().status();
}

bool ShardWorker::has_published(int l) const {
  // seq_cst: pairs with Learner's store to pub and the sleepers' mark of the doorbell.
  return region_.learner(l).pub.load(std::memory_order_seq_cst) >
         region_.folded(k_, l).load(std::memory_order_relaxed);
}

bool ShardWorker::may_fold(int l) const {
  const uint64_t next = region_.folded(k_, l).load(std::memory_order_relaxed) + 1;
  return has_published(l) && (!cut_ || cut_->may_fold(l, next));
}

Result<bool> ShardWorker::fold_what_is_there() {
  if (device_) return fold_on_device();
  bool folded = false;
  for (int l = 0; l < region_.learners_max(); ++l) {
    if (!may_fold(l)) continue;
    FFDL_RETURN_IF_ERROR(fold_.fold(l));
    after_fold();
    folded = true;
  }
  return folded;
}

// Folds all available gradients as one batch: the device returns the new values once for all of
// them.
Result<bool> ShardWorker::fold_on_device() {
  std::vector<int> batch;
  bool folded = false;
  for (int l = 0; l < region_.learners_max(); ++l) {
    if (!may_fold(l)) continue;
    const uint64_t next = region_.folded(k_, l).load(std::memory_order_relaxed) + 1;
    if (region_.meta(l, next).form == GradientForm::kDense) {
      batch.push_back(l);
      continue;
    }
    FFDL_RETURN_IF_ERROR(fold_sparse(l));
    folded = true;
  }
  if (batch.empty()) return folded;
  FFDL_RETURN_IF_ERROR(fold_.fold_batch(batch));
  after_fold();
  return true;
}

// Folds by the processor, which reads and writes only the touched ranges.
Status ShardWorker::fold_sparse(int l) {
  const uint64_t q = region_.folded(k_, l).load(std::memory_order_relaxed) + 1;
  FFDL_RETURN_IF_ERROR(fold_.fold(l));
  // The record remains until the gradient after the next one is pushed, which is not folded here
  // yet.
  FFDL_RETURN_IF_ERROR(device_->load(region_.touched(l, q).first(region_.meta(l, q).touched)));
  after_fold();
  return {};
}

// Returns true if a round can be formed. All shards must be done with the last round, and a learner
// must have published. Every attached learner that is not ahead of that one must have published
// too. A learner that is ahead waits for slower ones itself (Learner::begin_mini_batch); waiting
// for it here would never end. A dead learner no longer counts as `attached` once its death is
// proved.
bool ShardWorker::round_is_ready() const {
  const uint64_t number = region_.round().number.load(std::memory_order_relaxed);
  for (int k = 0; k < region_.shards(); ++k) {
    if (region_.shard(k).round_folded.load(std::memory_order_acquire) != number) return false;
  }
  uint64_t slowest_published = std::numeric_limits<uint64_t>::max();
  for (int l = 0; l < region_.learners_max(); ++l) {
    if (!has_published(l)) continue;
    const LearnerWords& words = region_.learner(l);
    const uint64_t pub = words.pub.load(std::memory_order_acquire);
    slowest_published = std::min(slowest_published, words.clock[pub & 1].load());
  }
  if (slowest_published == std::numeric_limits<uint64_t>::max()) return false;
  for (int l = 0; l < region_.learners_max() && !control_.stopping(); ++l) {
    const bool attached = region_.learner(l).attached.load(std::memory_order_seq_cst) != 0;
    if (attached && !has_published(l) && region_.folded_clock(l) < slowest_published) return false;
  }
  return true;
}

// Fixes the members in the segment before any shard folds the round. So all shards, and a
// successor, add up the same gradients.
void ShardWorker::form_round() {
  if (!round_is_ready()) return;
  const uint64_t next = region_.round().number.load(std::memory_order_relaxed) + 1;
  for (int l = 0; l < region_.learners_max(); ++l) {
    const uint64_t sequence = region_.folded(0, l).load(std::memory_order_relaxed) + 1;
    region_.round_sequence(next, l).store(has_published(l) ? sequence : 0,
                                          std::memory_order_relaxed);
  }
  region_.round().number.store(next, std::memory_order_seq_cst);  // pairs with has_work()
  region_.server().work.ring();
}

Result<bool> ShardWorker::fold_next_round() {
  const uint64_t next = region_.shard(k_).round_folded.load(std::memory_order_relaxed) + 1;
  if (next > region_.round().number.load(std::memory_order_seq_cst)) return false;
  if (cut_ && !cut_->may_fold_round(next)) return false;
  FFDL_RETURN_IF_ERROR(fold_.fold_round());
  after_fold();
  return true;
}

void ShardWorker::after_fold() {
  region_.server().progress.ring();
  if (config_.synchrony == Synchrony::kBulk && k_ != 0) region_.server().work.ring();
  snapshot_pauses_.pause_if_asked();
  serve_cut();
}

void ShardWorker::serve_cut() {
  if (control_.cut_number() != cut_seen_) {
    std::tie(cut_seen_, cut_) = control_.cut();
    if (cut_ && cut_->notice(region_)) region_.server().work.ring();
  }
  if (cut_ && cut_->reached(region_, k_)) {
    cut_->copy_shard(region_, k_);
    cut_.reset();
  }
}

bool ShardWorker::has_work() const {
  if (control_.failed() || control_.stopping() || control_.cut_number() != cut_seen_) return true;
  if (cut_ && cut_->reached(region_, k_)) return true;
  if (config_.synchrony != Synchrony::kBulk) {
    for (int l = 0; l < region_.learners_max(); ++l) {
      if (may_fold(l)) return true;
    }
    return false;
  }
  const uint64_t formed = region_.round().number.load(std::memory_order_seq_cst);
  const uint64_t next = region_.shard(k_).round_folded.load(std::memory_order_relaxed) + 1;
  if (next <= formed && (!cut_ || cut_->may_fold_round(next))) return true;
  return k_ == 0 && round_is_ready();
}

bool ShardWorker::drained() const {
  const std::vector<uint64_t>& targets = control_.stop_targets();
  for (int l = 0; l < region_.learners_max(); ++l) {
    const uint64_t folded = region_.folded(k_, l).load(std::memory_order_relaxed);
    if (folded < targets[static_cast<size_t>(l)]) return false;
  }
  return true;
}

}  // namespace ffdl::ps
