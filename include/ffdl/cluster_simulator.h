#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/job_scheduler.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"

// A cluster in fast motion: jobs arrive, a policy gives them workers, measured profiles say how
// fast they then train. The elastic policy is the planner of job_planner.h, the very code that
// plans live.
namespace ffdl {

// How long one step took. sync_s: the part of step_s that waited for other workers.
struct MeasuredStep {
  std::vector<int> placement;  // workers on each node
  int64_t local_batch = 0;     // samples of one worker
  double step_s = 0;
  double sync_s = 0;
};

// Training of one epoch at one global batch. progress is in steps of the smallest batch: what the
// steps so far were worth, whatever their batch was.
struct EpochStatistics {
  double progress = 0;  // at the end of the epoch
  double grad_sqr = 0;  // squared norm of the gradient, and its variance at the smallest batch
  double grad_var = 0;
};

// What was measured of one program: the first three, or a table of throughputs.
struct ApplicationProfile {
  std::string name;
  std::vector<MeasuredStep> placed{};  // for these placements exactly
  std::vector<MeasuredStep> spread{};  // for this number of nodes and workers, however placed
  std::map<int64_t, std::vector<EpochStatistics>> epochs{};  // by global batch, equally many each
  // Steps per second, wherever the workers are. Nothing else than these is possible; each sample is
  // worth the same; and only a job's own `duration_s` says how long it trains.
  std::map<int64_t, std::map<int, double>> throughputs{};  // by global batch, then workers
};

// Where a job was read, for messages; line 0: nowhere.
struct WorkloadSource {
  std::string file{};
  size_t line = 0;
  size_t workers_column = 0;  // counted from 1, as the others; 0: there is none
  size_t batch_column = 0;
  size_t application_column = 0;
};

struct WorkloadJob {
  std::string name{};
  std::string application{};  // empty: it is drawn (synthetic_workload.h)
  double submitted_s = 0;
  int workers = 0;    // what its owner asks for
  int64_t batch = 0;  // global
  // With these workers and this batch, were nothing to change. 0: it trains its program to the end.
  double duration_s = 0;
  WorkloadSource source{};
};

enum class ClusterPolicy {
  kFixed,            // first come, first served, each with the workers it asks for
  kTiresias,         // two queues by attained service, fixed sizes
  kElasticTiresias,  // the same with compaction and expansion
  kShortestFirst,    // least remaining time first, known exactly: a bound, not a policy
  kElastic,          // the planner
};
enum class PlanObjective { kThroughput, kGoodput };
// Which global batch a job of the elastic policy trains with.
enum class TrainingBatch {
  kDynamic,   // the best one for its workers, anew after each epoch
  kWorkload,  // what its owner asks for
  kSmallest,  // that its profile knows, and the largest
  kLargest,
};

struct ClusterOptions {
  int nodes = 16;
  int gpus_per_node = 4;
  ClusterPolicy policy = ClusterPolicy::kElastic;
  PlanObjective objective = PlanObjective::kGoodput;
  TrainingBatch batch = TrainingBatch::kDynamic;  // elastic only; the others: kWorkload
  // Each sample is worth the same whatever the batch, as the paper assumes; otherwise what was
  // measured of the gradients says what a step is worth.
  bool samples_count_alike = false;
  // Elastic only: of one job. Profiles know nothing of jobs larger than those that were measured.
  int job_workers_max = 1'000'000;
  // Elastic only: planned with the boundaries of nodes (schedule_placed_jobs), as the autoscaler
  // does, and placed as planned; otherwise planned without, and then packed.
  bool plans_nodes = false;
  bool known_speeds = false;  // elastic only: planned by the profiles, not by what jobs have shown
  WhenFull when_full = WhenFull::kQueue;  // elastic only
  double interval_s = 60;                 // between decisions
  double restart_s = 30;                  // without progress after each change of a job's workers
  // After the last arrival: jobs that have not ended by then are reported as such.
  double horizon_s = 30 * 86400.0;
};

struct JobOutcome {
  std::string name;
  double submitted_s = 0;
  double started_s = -1;    // -1: never
  double completed_s = -1;  // -1: not by the horizon
  double dropped_s = -1;    // when it was turned away; -1: it was not
  int reallocations = 0;    // after its first allocation
  std::string application{};
};

// One job's workers from a moment on.
struct AllocationChange {
  double time_s = 0;
  uint32_t job = 0;
  int workers = 0;
};

struct ClusterReport {
  std::vector<JobOutcome> jobs;  // as in the workload
  std::vector<AllocationChange> timeline;
  double makespan_s = 0;
  double utilisation = 0;  // share of the workers' time that was allocated until the makespan
  int reallocations = 0;
  std::vector<double> decision_ms;  // wall time of each decision
};

// Runs the workload to its end. `progress`, if given, is called now and then with the share of jobs
// done; of the runtime only the clock is used, to time the decisions. Errors: kInvalidArgument (an
// unknown application, a job that can never run; the message names it).
FFDL_API Result<ClusterReport> simulate_cluster(
    std::span<const WorkloadJob> workload,
    const std::map<std::string, ApplicationProfile>& profiles, const ClusterOptions& options,
    const std::function<void(double)>& progress = {}, Runtime& runtime = system_runtime());

}  // namespace ffdl
