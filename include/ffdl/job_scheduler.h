#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/job_planner.h"
#include "ffdl/placed_plan.h"
#include "ffdl/status.h"

// Which jobs run at all, and with how many workers: what an autoscaler decides whenever a job
// comes, ends or fails, the cluster changes, or some time has passed. The same function decides
// live (autoscaler.h) and in the simulated cluster (cluster_simulator.h).
namespace ffdl {

// What becomes of a job that comes when its smallest size does not fit any more.
enum class WhenFull {
  kQueue,  // it waits, and so do those after it: nobody overtakes
  kDrop,   // it is turned away for good; the next one may still fit
};

struct ScheduledJob {
  JobRequest request{};
  bool is_admitted = false;  // it was told before that it runs: it is never turned away
};

enum class JobFate { kRuns, kWaits, kDropped };

struct ScheduledShare {
  JobFate fate = JobFate::kWaits;
  int workers = 0;    // 0 unless it runs
  int64_t batch = 0;  // that of its size
  std::string reason{};
  std::vector<NodeWorkers> nodes{};  // of schedule_placed_jobs(): where its workers lie
};

struct Schedule {
  // False: the workers are fewer than the admitted jobs need. Each of them then has its smallest
  // size, which is more than there is, and nobody else is let in.
  // Of schedule_placed_jobs(): those that do not fit on the nodes beside the ones before them keep
  // their smallest size, of what they have; the others share what there is.
  bool feasible = true;
  std::vector<ScheduledShare> jobs{};  // in the order of the jobs
};

// The scan of "Effective Elastic Scaling of Deep Learning Workloads" (arXiv 2006.13878): jobs come
// in order of arrival; each is let in if the smallest sizes of all that are in, and its own, fit
// together. Then plan_jobs() shares the workers among those. Jobs that may wait (JobRequest) need
// nothing to be let in.
// Errors: those of plan_jobs().
FFDL_API Result<Schedule> schedule_jobs(std::span<const ScheduledJob> jobs, int workers,
                                        WhenFull when_full);

// The same on nodes with room for so many workers each: who is let in has its gang, its smallest
// size, placed beside those of all that are in; and plan_placed_jobs() shares the workers.
// Errors: those of plan_placed_jobs().
FFDL_API Result<Schedule> schedule_placed_jobs(std::span<const ScheduledJob> jobs,
                                               std::span<const int> nodes, WhenFull when_full,
                                               const PlacementOptions& options = {});

// Makes all sizes but the present one worth less, so that plans do not flap: a job that stands
// still for `switch_s` while it changes gets that much less done within `horizon_s`, the time after
// which the plan is expected to be another. A job that does not run pays it too when it starts.
FFDL_API void discount_switches(JobRequest& request, double switch_s, double horizon_s);

}  // namespace ffdl
