#include "ps/shard_worker.h"

#include "base/limits.h"
#include "ps/pull.h"

namespace ffdl::ps {

Status ShardWorker::run() {
  snapshots_seen_ = region_.shard(k_).snapshots.load(std::memory_order_acquire);
  const bool bulk = config_.synchrony == Synchrony::kBulk;
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
  bool folded = false;
  for (int l = 0; l < region_.learners_max(); ++l) {
    if (!may_fold(l)) continue;
    FFDL_RETURN_IF_ERROR(fold_.fold(l));
    after_fold();
    folded = true;
  }
  return folded;
}

// A round can be formed when all shards are done with the last one and every attached learner has
// published; the dead leave `attached` when their death is proved.
bool ShardWorker::round_is_ready() const {
  const uint64_t number = region_.round().number.load(std::memory_order_relaxed);
  for (int k = 0; k < region_.shards(); ++k) {
    if (region_.shard(k).round_folded.load(std::memory_order_acquire) != number) return false;
  }
  bool any = false;
  for (int l = 0; l < region_.learners_max(); ++l) {
    const bool awaited = region_.learner(l).attached.load(std::memory_order_seq_cst) != 0;
    const bool published = has_published(l);
    if (awaited && !published && !control_.stopping()) return false;
    any = any || published;
  }
  return any;
}

// The members are fixed, in the segment, before any shard folds the round: all shards, and a
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
  pause_for_snapshots(region_, k_, snapshots_seen_);
  serve_cut();
}

void ShardWorker::serve_cut() {
  if (const uint64_t number = control_.cut_number(); number != cut_seen_) {
    cut_seen_ = number;
    cut_ = control_.cut();
  }
  if (cut_ && cut_->reached(region_, k_)) {
    cut_->copy_shard(region_, k_);
    cut_.reset();
  }
}

bool ShardWorker::has_work() const {
  if (control_.failed() || control_.stopping() || control_.cut_number() != cut_seen_) return true;
  if (config_.synchrony != Synchrony::kBulk) {
    for (int l = 0; l < region_.learners_max(); ++l) {
      if (may_fold(l)) return true;
    }
    return false;
  }
  const uint64_t formed = region_.round().number.load(std::memory_order_seq_cst);
  if (region_.shard(k_).round_folded.load(std::memory_order_relaxed) < formed) return true;
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
