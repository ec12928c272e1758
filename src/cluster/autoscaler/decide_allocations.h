#pragma once

#include <vector>

#include "cluster/autoscaler/autoscaler.h"
#include "cluster/autoscaler/snapshot.h"

namespace ffdl::cluster {

struct AllocationDecision {
  // The allocations to publish, for the jobs of the snapshot in their order. A job that is to grow
  // keeps its size here until others have released what it needs.
  std::vector<JobAllocation> jobs{};
  bool is_settled = true;  // false: a job waits for workers that others are about to release
};

// Decides from the snapshot alone, so that a new autoscaler decides as its predecessor did. Errors:
// those of plan_jobs().
Result<AllocationDecision> decide_allocations(const Snapshot& snapshot,
                                              const AutoscalerOptions& options);

}  // namespace ffdl::cluster
