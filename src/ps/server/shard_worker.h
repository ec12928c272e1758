#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "ps/segment/cut.h"
#include "ps/segment/layout.h"
#include "ps/segment/pull.h"
#include "ps/server/fold.h"

namespace ffdl::ps {

// Carries the commands of a server's owner to its shard threads.
class ServerControl {
 public:
  // Makes shards fold up to `targets` and then end.
  void stop_after(std::vector<uint64_t> targets) {
    stop_targets_ = std::move(targets);
    stopping_.store(true, std::memory_order_release);
  }
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }
  // Valid only once stopping() is true.
  const std::vector<uint64_t>& stop_targets() const { return stop_targets_; }

  void set_cut(std::shared_ptr<CutRequest> cut) {
    base::MutexLock lock(mutex_);
    cut_ = std::move(cut);
    cut_number_.fetch_add(1, std::memory_order_release);
  }
  uint64_t cut_number() const { return cut_number_.load(std::memory_order_acquire); }
  // Returns the current request and its number atomically: a shard notices each request once.
  std::pair<uint64_t, std::shared_ptr<CutRequest>> cut() {
    base::MutexLock lock(mutex_);
    return {cut_number(), cut_};
  }

  // Records the first failure of any shard.
  void fail(Status why) {
    base::MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = std::move(why);
    failed_.store(true, std::memory_order_release);
  }
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  Status failure() {
    base::MutexLock lock(mutex_);
    return failure_;
  }

 private:
  std::atomic<bool> stopping_ = false;
  std::vector<uint64_t> stop_targets_;
  std::atomic<bool> failed_ = false;
  std::atomic<uint64_t> cut_number_ = 0;
  base::Mutex mutex_;
  std::shared_ptr<CutRequest> cut_ FFDL_GUARDED_BY(mutex_);
  Status failure_ FFDL_GUARDED_BY(mutex_);
};

// Runs the loop of one server thread, which folds publications of learners into its shard. Each
// learner's are folded oldest first, the learners in turn.
// Threads: run() is the thread; nothing else is called meanwhile.
class ShardWorker {
 public:
  // `device` folds dense gradients; null: the processor folds all.
  ShardWorker(const Region& region, const UpdateRule& rule, int shard, ServerControl& control,
              std::unique_ptr<DeviceFold> device = nullptr)
      : region_(region),
        config_(region_.config()),
        k_(shard),
        device_(std::move(device)),
        fold_(region_, rule, shard, {}, device_.get()),
        control_(control),
        snapshot_pauses_(region_, shard) {}

  // Finishes an interrupted fold. Returns true if there was one.
  Result<bool> recover() { return fold_.recover(); }
  // Returns when the control requests it, with kCorrupt, or with an error of the device.
  Status run();
  // After an error of the device, leave_device() lets the processor finish the interrupted fold. It
  // also folds in the next run().
  bool has_device() const { return device_ != nullptr; }
  Status leave_device();

 private:
  Result<bool> fold_what_is_there();
  Result<bool> fold_on_device();
  Status fold_sparse(int l);
  Result<bool> fold_next_round();
  bool round_is_ready() const;
  void form_round();
  void serve_cut();
  bool has_work() const;
  bool drained() const;
  bool has_published(int l) const;
  bool may_fold(int l) const;
  void after_fold();

  const Region region_;
  const Config& config_;
  const int k_;
  std::unique_ptr<DeviceFold> device_;
  ShardFold<> fold_;
  ServerControl& control_;
  std::shared_ptr<CutRequest> cut_;  // not yet reached
  uint64_t cut_seen_ = 0;
  SnapshotPauses snapshot_pauses_;
};

}  // namespace ffdl::ps
