#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cluster/simulator/workload.h"
#include "ffdl/cluster/job_planner.h"
#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"

// Simulates a cluster: jobs arrive, a policy gives them workers, and measured profiles determine
// their speed. The elastic policy is the planner of job_planner.h: the code that also plans live
// jobs.
namespace ffdl::cluster {

enum class ClusterPolicy {
  kFixed,            // first come, first served, each with the requested workers
  kTiresias,         // two queues by attained service, fixed sizes
  kElasticTiresias,  // kTiresias with compaction and expansion
  kShortestFirst,    // least remaining time first, known exactly: a bound, not a policy
  kElastic,          // the planner
};
enum class PlanObjective { kThroughput, kGoodput };
// The global batch of a job under the elastic policy.
enum class TrainingBatch {
  kDynamic,   // the best one for its workers, chosen again after each epoch
  kWorkload,  // the one that its owner requests
  kSmallest,  // the smallest in its profile
  kLargest,   // the largest in its profile
};

struct ClusterOptions {
  int nodes = 16;
  int gpus_per_node = 4;
  ClusterPolicy policy = ClusterPolicy::kElastic;
  PlanObjective objective = PlanObjective::kGoodput;
  TrainingBatch batch = TrainingBatch::kDynamic;  // elastic only; the others: kWorkload
  // Gives each sample the same value at any batch, as the paper assumes. Otherwise the measured
  // gradients determine the value of a step.
  bool samples_count_alike = false;
  // The limit for one job; elastic only. Profiles have no data of sizes beyond the measured ones.
  int job_workers_max = 1'000'000;
  // Plans with the boundaries of nodes (plan_jobs), as the autoscaler does, and uses
  // that placement; elastic only. Otherwise plans without boundaries, and then packs.
  bool plans_nodes = false;
  bool known_speeds = false;  // elastic only: plans by the profiles, not by measured job speeds
  WhenFull when_full = WhenFull::kQueue;  // elastic only
  double interval_s = 60;                 // between decisions
  double restart_s = 30;                  // without progress after each change of a job's workers
  // The time limit after the last arrival: jobs that have not ended by then are reported as such.
  double horizon_s = 30 * 86400.0;
};

struct JobOutcome {
  std::string name;
  double submitted_s = 0;
  double started_s = -1;    // -1: never
  double completed_s = -1;  // -1: not by the horizon
  double dropped_s = -1;    // when it was rejected; -1: never
  int reallocations = 0;    // after its first allocation
  std::string application{};
};

// The workers of one job from a time on.
struct AllocationChange {
  double time_s = 0;
  uint32_t job = 0;
  int workers = 0;
};

struct ClusterReport {
  std::vector<JobOutcome> jobs;  // as in the workload
  std::vector<AllocationChange> timeline;
  double makespan_s = 0;
  double utilisation = 0;  // the allocated part of the workers' time until the makespan
  int reallocations = 0;
  std::vector<double> decision_ms;  // wall time of each decision
};

// Runs the workload to its end. `progress`, if given, is called from time to time with the share of
// completed jobs. Of the runtime only the clock is used, to time the decisions. Errors:
// kInvalidArgument (an unknown application, a job that can never run; the message names it).
FFDL_API Result<ClusterReport> simulate_cluster(
    std::span<const WorkloadJob> workload,
    const std::map<std::string, ApplicationProfile>& profiles, const ClusterOptions& options,
    const std::function<void(double)>& progress = {}, Runtime& runtime = system_runtime());

}  // namespace ffdl::cluster
