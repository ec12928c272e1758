#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "ps/layout.h"

namespace ffdl::ps {

// A cut in the making: every shard folds exactly to the same targets, copies its part and goes on.
// A shard that folded on while the targets are chosen could already be beyond them: so each shard
// stops when it notices the request, and the last one to notice fixes the targets for all.
class CutRequest {
 public:
  explicit CutRequest(const Region& region);

  // Called once by every shard, before it folds anything more. True for the last of them: the
  // targets are fixed now, and the others may sleep.
  bool notice(const Region& region);
  // Whether shard k may fold what comes next without passing the cut.
  bool may_fold(int l, uint64_t sequence) const {
    return fixed() && sequence <= targets_[static_cast<size_t>(l)];
  }
  bool may_fold_round(uint64_t round) const { return fixed() && round <= round_; }
  bool reached(const Region& region, int k) const;

  // Copies shard k's part; with the last of them the cut is done.
  void copy_shard(const Region& region, int k);
  // Waits for all shards. False at the deadline.
  bool wait_done(Time deadline);
  ParameterServerCut take() { return std::move(cut_); }

 private:
  bool fixed() const { return fixed_.load(std::memory_order_acquire); }

  std::atomic<int> unaware_;
  std::atomic<bool> fixed_ = false;  // from then on the targets are constant
  std::vector<uint64_t> targets_;
  uint64_t round_ = 0;
  ParameterServerCut cut_;  // each shard writes its own part
  base::Mutex mutex_;
  base::Condition condition_;
  int missing_ FFDL_GUARDED_BY(mutex_);
};

}  // namespace ffdl::ps
