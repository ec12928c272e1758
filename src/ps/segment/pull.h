#pragma once

#include <functional>
#include <span>

#include "ffdl/ps/learner.h"
#include "ps/segment/layout.h"

namespace ffdl::ps {

// Copies all weights and returns their version. The copy contains every gradient of that version.
// With PullMode::kSnapshot each shard is copied in its state between two updates. The reader
// requests a pause from the shard's thread and checks its sequence lock afterwards. If a server was
// killed or stopped during an update, it fails with kTimeout after kSnapshotWaitMax.
Result<uint64_t> pull_weights(const Region& region, std::span<float> to, PullMode mode);

// Pulls the weights through `read`, which has read weights [begin, begin + count) when it returns.
// Under kSnapshot it may be called again for the same weights; the earlier reading is then void.
using ReadWeights = std::function<Status(uint64_t begin, uint64_t count)>;
Result<uint64_t> pull_weights(const Region& region, PullMode mode, const ReadWeights& read);

// Checks that the rows exist, and that there is room for their weights.
Status check_pull_rows(const Region& region, const RowWeights& wanted);

// Copies checked rows one after the other to `to`, as under kRelaxed.
void copy_rows(const Region& region, const RowWeights& wanted, float* to);

// The state that a shard's thread keeps about its snapshot readers.
class SnapshotPauses {
 public:
  SnapshotPauses(const Region& region, int k);

  // Called between two folds. If readers have requested a pause, waits until they have made a copy.
  // The wait is bounded, as a reader may die. After a wait that was too short, the next one is
  // twice as long.
  void pause_if_asked();

 private:
  ShardWords& words_;
  uint32_t seen_;  // requests answered so far
  const Duration shortest_;
  Duration patience_;
};

}  // namespace ffdl::ps
