#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "ps/layout.h"

namespace ffdl::ps {

// A cut in the making: every shard folds exactly to the same targets, copies its part and goes on.
// No shard waits for another.
class CutRequest {
 public:
  // Targets: what is published now (or the newest round).
  explicit CutRequest(const Region& region);

  // Whether shard k may fold what comes next without passing the cut.
  bool may_fold(int l, uint64_t sequence) const {
    return sequence <= targets_[static_cast<size_t>(l)];
  }
  bool may_fold_round(uint64_t round) const { return round <= round_; }
  bool reached(const Region& region, int k) const;

  // Copies shard k's part; with the last of them the cut is done.
  void copy_shard(const Region& region, int k);
  // Waits for all shards. False at the deadline.
  bool wait_done(Time deadline);
  ParameterServerCut take() { return std::move(cut_); }

 private:
  std::vector<uint64_t> targets_;
  uint64_t round_ = 0;
  ParameterServerCut cut_;  // each shard writes its own part
  base::Mutex mutex_;
  base::Condition condition_;
  int missing_ FFDL_GUARDED_BY(mutex_);
};

}  // namespace ffdl::ps
