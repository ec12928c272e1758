#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ffdl/cluster/step_measurement.h"
#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/store.h"
#include "ffdl/types.h"

// Policies for the number of workers of a job, by its own metrics: its speed, its queues, the noise
// of its gradients (docs/guide/policies.md).
// A policy is a function of values. A PolicyFollower applies its decisions to a running job, within
// SteadyOptions, which prevent oscillation.
namespace ffdl {

// A point in time of the calendar, UTC; only policies and their logs use it.
using WallTime = std::chrono::sys_time<Duration>;

// The values of one metric at the members of a job: the sum over the members that reported one.
struct MetricValue {
  double sum = 0;
  int members = 0;

  double mean() const { return members > 0 ? sum / members : 0; }
  bool operator==(const MetricValue&) const = default;
};

// The input of a policy: the state of a job, with means over some steps in one world.
struct Observation {
  WallTime at{};  // the time of the decision
  int workers = 0;
  uint64_t step = 0;               // the last of the steps
  double step_s = 0;               // of one step
  double samples_per_s = 0;        // of all workers; 0: not known
  double communication_share = 0;  // the part of a step in which a member does not compute: 0 to 1
  std::vector<StepMeasurement> speeds{};         // so far, by workers, including the present size
  std::optional<int> idle_workers{};             // used by no job; below 0: too many are used
  std::map<std::string, MetricValue> metrics{};  // the application's own

  bool operator==(const Observation&) const = default;
};

struct SizeDecision {
  int workers = 0;
  std::string reason{};

  bool operator==(const SizeDecision&) const = default;
};

// Decides the best size for an observation. Pure: it keeps no state between calls and depends on
// its arguments alone, so that a recorded job can be replayed (replay_policy). It need not respect
// bounds, and may change its decision at once.
// Threads: from any, several at a time.
class FFDL_API ElasticPolicy {
 public:
  virtual ~ElasticPolicy() = default;
  virtual SizeDecision decide(const Observation& observation) const = 0;
};

// The built-in policies. Each keeps the present size if its input is not known.
// Errors of all: kInvalidArgument (the message names the argument).

// Uses as many workers as are efficient. The efficiency of a further worker is its gain in speed
// over the speed per worker before it: 1 if the speed grows in proportion. The job grows if further
// workers have more than `grow_above`, or if it is not known: unmeasured sizes are tried, one
// worker at a time. It shrinks if the last workers have less than `shrink_below`. Measurements
// older than `trusted_for` are ignored.
FFDL_API Result<std::unique_ptr<ElasticPolicy>> efficiency_policy(
    double grow_above = 0.7, double shrink_below = 0.5,
    Duration trusted_for = std::chrono::minutes(10));

// Uses as many workers as a queue needs: its length, a metric that is summed over the members, over
// the part that one worker can serve (`per_worker`, above 0).
FFDL_API Result<std::unique_ptr<ElasticPolicy>> queue_policy(double per_worker,
                                                             std::string metric = "queue_depth");

// Uses as many workers as the noise of the gradients makes useful. That is the noise scale
// (gradient_noise.h; a metric, the mean over the members) over the samples of one worker in a step
// (above 0). A larger batch would be mostly wasted (McCandlish et al., arXiv 1812.06162, section
// 2.2).
FFDL_API Result<std::unique_ptr<ElasticPolicy>> noise_policy(double samples_per_worker,
                                                             std::string metric = "noise_scale");

// Uses a number of workers from a time of the day on. `sizes`: pairs of a time since midnight,
// below 24 hours, and the workers from then on, in any order; before the first of a day the last
// one applies. `utc_offset`: of the clock of these times, 2 h in UTC+2.
FFDL_API Result<std::unique_ptr<ElasticPolicy>> schedule_policy(
    std::vector<std::pair<Duration, int>> sizes, Duration utc_offset = {});

// Uses all idle workers except `keep_idle`, and returns workers that other jobs need.
FFDL_API Result<std::unique_ptr<ElasticPolicy>> idle_policy(int keep_idle = 0);

// The limits on the decisions of every policy.
struct SteadyOptions {
  int min_workers = 1;
  int max_workers = INT32_MAX;
  Duration cooldown = std::chrono::seconds(60);  // no change for this long after a change
  int confirmations = 2;  // consecutive proposals for more, or for fewer, before a change
  double tolerance = 0;   // a change by less than this part of the present size is ignored
  int step_max = 0;       // the largest change at once, in workers; 0: no bound
};

// Checks the options. Errors: kInvalidArgument (the message names the options).
FFDL_API Status check_steady(const SteadyOptions& options);

struct LoadedPolicy {
  std::unique_ptr<ElasticPolicy> policy;
  SteadyOptions steady{};
};

// Loads a built-in policy from a YAML or JSON file; docs/guide/policies.md lists the keys.
//   policy: queue
//   per_worker: 100
//   max_workers: 8        # and min_workers, cooldown_s, confirmations, tolerance, step_max
// Blocks: reads the file. Errors: kNotFound (no such file), kInvalidArgument; the message names the
// file, the line and the column.
FFDL_API Result<LoadedPolicy> load_policy(const std::filesystem::path& file);

}  // namespace ffdl

// Applies a policy to a running job: the base of `ffdl run --policy` (docs/guide/policies.md).
namespace ffdl {

struct PolicyFollowerOptions {
  std::string job = "job";
  SteadyOptions steady{};  // the bounds of the job's --workers MIN:MAX apply as well
  // The least time between decisions. The newest measurement counts.
  Duration interval = std::chrono::seconds(1);
  std::string log_file{};  // every decision is appended as a line of JSON; empty: no log
  std::function<WallTime()> clock = [] { return WallTime(std::chrono::system_clock::now()); };
};

// Reads the measurements of a job's StepMetrics (step_metrics.h), calls the policy, and scales the
// job by scale_job() (running_job.h). It decides nothing while a change is in progress. One job
// should have one follower, and none if `ffdl autoscale` scales it.
// Threads: one task of the runtime, on which the policy is called.
// Owns: nothing: all references must outlive it.
// Blocks: the destructor until the task's present call to the store or the policy returns.
// Errors: of start(): kInvalidArgument (the options), kUnavailable (the log cannot be written),
//         and those of Store. Later ones are logged, once each.
class FFDL_API PolicyFollower {
 public:
  static Result<std::unique_ptr<PolicyFollower>> start(Store& store, Runtime& runtime,
                                                       const ElasticPolicy& policy,
                                                       const PolicyFollowerOptions& options);
  ~PolicyFollower();
  PolicyFollower(const PolicyFollower&) = delete;
  PolicyFollower& operator=(const PolicyFollower&) = delete;

  // Returns the number of decisions, and of changes that were requested from the job. Threads: any.
  uint64_t decisions() const;
  uint64_t changes() const;

 private:
  class Impl;
  explicit PolicyFollower(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// Returns the number of workers that nodes offer in this store (offer_workers(), autoscaler.h) and
// that neither this job nor the autoscaled jobs use. Below 0: more are used. None: none are
// offered.
// Errors: those of Store.
FFDL_API Result<std::optional<int>> count_idle_workers(Store& store, std::string_view job);

}  // namespace ffdl

// Replays a policy on a recorded job: the sizes that it would have requested, and how much it
// oscillates. The base of `ffdl policy replay` (docs/guide/policies.md).
namespace ffdl {

// Loads a trace, observations in the order of time, from a log of decisions
// (PolicyFollowerOptions::log_file), or from lines of JSON that are observations with `t_s`. Skips
// other lines of JSON, and an incomplete last line. Blocks: reads the file. Errors: kNotFound (no
// such file), kInvalidArgument (the message names the line; no observation at all; times that go
// back).
FFDL_API Result<std::vector<Observation>> load_policy_trace(const std::filesystem::path& file);

struct ReplayPoint {
  WallTime at{};
  int workers = 0;   // from this time on
  int proposed = 0;  // by the policy
  std::string reason{};

  bool operator==(const ReplayPoint&) const = default;
};

struct PolicyReplay {
  std::vector<ReplayPoint> points{};  // one for each point of the trace
  uint64_t changes = 0;
  uint64_t reversals = 0;
  uint64_t unmeasured = 0;  // points at a size that the trace never had: its speed is unknown
  double seconds = 0;       // from the first to the last point
  double worker_seconds = 0;

  // Returns the part of the changes that were reversals, 0 to 1.
  double oscillation() const {
    return changes > 0 ? static_cast<double>(reversals) / static_cast<double>(changes) : 0;
  }
  double mean_workers() const { return seconds > 0 ? worker_seconds / seconds : 0; }
};

// Replays a policy. At each point it sees the recorded observation with its own size in place of
// the recorded one. The speed of that size, and of all others, is the mean over the trace, as if
// just measured. Its additional workers are not idle. Metrics are as recorded: the effect of
// another size on them is unknown. Pure.
// first_workers: none: those of the trace's first point. reversal_window: a change in the opposite
// direction of the last one, within this time, is a reversal.
// Errors: kInvalidArgument (the options, an empty trace).
FFDL_API Result<PolicyReplay> replay_policy(std::span<const Observation> trace,
                                            const ElasticPolicy& policy,
                                            const SteadyOptions& steady,
                                            std::optional<int> first_workers = std::nullopt,
                                            Duration reversal_window = std::chrono::minutes(10));

}  // namespace ffdl
