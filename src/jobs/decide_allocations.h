#pragma once

#include <vector>

#include "jobs/snapshot.h"

namespace ffdl::jobs {

struct AllocationDecision {
  // What is to be published, for the jobs of the snapshot in their order. A job that is to grow
  // keeps its size here until others have given back what it needs.
  std::vector<JobAllocation> jobs{};
  bool is_settled = true;  // false: somebody waits for what others are about to give back
};

// A function of the snapshot alone, so that an autoscaler that begins anew decides as the one
// before it. Errors: those of schedule_jobs().
Result<AllocationDecision> decide_allocations(const Snapshot& snapshot,
                                              const AutoscalerOptions& options);

}  // namespace ffdl::jobs
