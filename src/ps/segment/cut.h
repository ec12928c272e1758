#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "ps/segment/layout.h"

namespace ffdl::ps {

// A cut in progress: every shard folds exactly up to the same targets, copies its part and
// continues. A shard that folded while the targets are chosen could pass them. So each shard stops
// when it notices the request. The last one to notice fixes the targets for all.
class CutRequest {
 public:
  explicit CutRequest(const Region& region);

  // Called once by every shard, before it folds anything more. Returns true for the last one:
  // the targets are now fixed, and the others may be asleep.
  bool notice(const Region& region);
  // Returns true if the shard may fold this gradient of learner l without passing the cut.
  bool may_fold(int l, uint64_t sequence) const {
    return fixed() && sequence <= targets_[static_cast<size_t>(l)];
  }
  bool may_fold_round(uint64_t round) const { return fixed() && round <= round_; }
  bool reached(const Region& region, int k) const;

  // Copies shard k's part. The last shard to do so completes the cut.
  void copy_shard(const Region& region, int k);
  // Waits for all shards. Returns false at the deadline.
  bool wait_done(Time deadline);
  ParameterServerCut take() { return std::move(cut_); }

 private:
  bool fixed() const { return fixed_.load(std::memory_order_acquire); }

  std::atomic<int> unaware_;
  std::atomic<bool> fixed_ = false;  // once true, the targets are constant
  std::vector<uint64_t> targets_;
  uint64_t round_ = 0;
  ParameterServerCut cut_;  // each shard writes its own part
  base::Mutex mutex_;
  base::Condition condition_;
  int missing_ FFDL_GUARDED_BY(mutex_);
};

}  // namespace ffdl::ps
