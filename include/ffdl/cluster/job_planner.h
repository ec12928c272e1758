#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/status.h"

// Plans the workers, the batch and the nodes of each job: a function of values, not a service. It
// maximises
//   sum over jobs of value(workers of that job)
// over all ways to give every job one of its sizes within the available workers. An autoscaler
// plans when a job arrives, ends or fails, when the cluster changes, or after some time. The same
// function plans live jobs (autoscaler.h) and those of `ffdl plan` and `ffdl simulate`.
namespace ffdl {

// One size at which a job can run.
struct SizeOption {
  int workers = 0;
  double value = 0;   // of that size; in the paper's objective the scaling factor S(k)
  int64_t batch = 0;  // the global batch with that value; only passed through
  // The standard deviation of the value relative to it, if a model predicts it; only passed
  // through.
  float uncertainty = 0;
  // The placement on which the value depends; 0: any.
  int16_t nodes_max = 0;     // the largest number of nodes (PACK)
  int16_t per_node_max = 0;  // the largest number of workers on one node (SPREAD)

  bool operator==(const SizeOption&) const = default;
};

// Workers on one node: those of a job, or those for which the node has room.
struct NodeWorkers {
  std::string node{};  // its name
  int workers = 0;

  bool operator==(const NodeWorkers&) const = default;
};

// The sizes at which a job can run, and its present state.
struct JobRequest {
  std::string name;
  // Any order. A number of workers may be listed several times, with different placements. A job
  // that is faster within a node than across nodes lists both:
  //   {4, 3.8, .nodes_max = 1}, {4, 3.1}
  // The smallest size is its gang: the job gets all of it at once, or waits.
  std::vector<SizeOption> sizes{};
  bool may_wait = false;    // 0 workers, with value 0, is also allowed
  int current_workers = 0;  // 0: not running
  double switch_cost = 0;   // subtracted from the value of every size but the current one
  std::string source{};     // the place of the request, for messages: "'jobs.yaml': line 3"
  std::vector<std::string> only_nodes{};     // the allowed nodes; empty: all
  std::vector<NodeWorkers> current_nodes{};  // the placement of the present size
  // Allows the job to move if other jobs do not fit beside it, or its size changes. Otherwise it
  // grows by workers beside its own, and shrinks by releasing some of them.
  bool may_move = true;
  bool is_admitted = false;  // by an earlier plan with PlanOptions::when_full: it is never rejected
};

// The result for one job.
struct JobAllocation {
  std::string name{};
  int workers = 0;  // 0: it waits, or was dropped
  int64_t batch = 0;
  bool is_dropped = false;  // rejected for good (WhenFull::kDrop)
  std::string reason{};  // of plan_jobs(): why it was not admitted, or keeps its size; else empty
  // The placement of its workers. Empty if the cluster's only node has no name.
  std::vector<NodeWorkers> nodes{};
  double value = 0;  // as requested, before any switch cost
  float uncertainty = 0;
  // The neighbouring sizes: the effect of fewer or more workers. A smaller one of 0 workers: it
  // would wait.
  std::optional<SizeOption> smaller{};
  std::optional<SizeOption> larger{};
  // The size in the best plan without boundaries of nodes, if it differs; of 0 workers: it would
  // wait.
  std::optional<SizeOption> without_boundaries{};

  bool operator==(const JobAllocation&) const = default;
};

// The treatment of an arriving job whose smallest size does not fit.
enum class WhenFull {
  kQueue,  // it waits, and so do all later jobs: none overtakes it
  kDrop,   // it is rejected for good; the next one may still fit
};

struct PlanOptions {
  // Admits jobs in order of arrival, by the scan of "Effective Elastic Scaling of Deep Learning
  // Workloads" (arXiv 2006.13878). A job is admitted if its gang fits beside those of all admitted
  // jobs. Then these share the workers. Jobs that may wait need nothing to be admitted. None: all
  // jobs must fit, or the plan is not feasible.
  std::optional<WhenFull> when_full{};
  int plans_max = 300;           // plans without boundaries for which a placement is searched
  int placements_max = 100'000;  // steps of the search for a placement, for each plan
};

struct Plan {
  // Every job that must run has a size. With `when_full`: the admitted jobs fit. If not, each of
  // them that does not fit keeps its smallest size, in the places that it has, and its reason says
  // so; the others share the rest.
  bool feasible = true;
  std::string reason{};  // why it is not feasible; empty otherwise
  double total = 0;      // sum of the jobs' values, less switch costs
  double bound = 0;      // no plan has a larger total
  bool is_best = false;  // the total equals the bound: no plan is better
  int plans_tried = 0;
  int workers_used = 0;
  // In the order of the requests; empty if not feasible and without `when_full`.
  std::vector<JobAllocation> jobs{};
};

// Computes the best plan for a cluster: the room of each node, with different names. A cluster
// without boundaries of nodes is one node, which needs no name: {{"", 64}}. Of two plans with equal
// totals, the one with fewer workers is preferred.
//
// With one node, and no request that depends on nodes, the result is exact for any shape of the
// values: with gaps, minimums, powers of two, several maxima. Time: linear in the number of sizes
// if the values are concave. Otherwise a bound first excludes the sizes that cannot be part of a
// best plan, and the dynamic program runs over the rest: at worst jobs x workers x sizes steps and
// 2 bytes x jobs x workers of memory.
//
// With several nodes it is a search by branch and bound, whose bound is the plan without
// boundaries. A plan without a placement is branched: at least one of its sizes must differ. If the
// search ends within the options, the plan is the best one. Otherwise it is the best that was
// found, and `bound` limits the total of any other. Placing the workers of a plan is a packing
// problem, so no method always ends early. Present placements are kept where possible, or where
// required (JobRequest::may_move). A move costs nothing in `total`.
//
// Threads: any; a pure function. Blocks: computes, with several nodes up to `plans_max` times as
// long as with one, and the search for a placement.
// Errors: kInvalidArgument (an invalid request, node or option; the message names it), kExhausted
// (the table would need more than 2 GiB). Too few workers for all jobs is not an error, but a plan
// that is not feasible.
FFDL_API Result<Plan> plan_jobs(std::span<const JobRequest> requests,
                                std::span<const NodeWorkers> cluster,
                                const PlanOptions& options = {});

// Returns one sentence: the job's workers and their nodes, the effect of fewer or more, and the
// plan without boundaries; or the reason, if there is one.
FFDL_API std::string explain(const JobAllocation& allocation);

// Reduces the value of all sizes but the present one, so that plans do not oscillate. A change
// stops a job for `switch_s`, so it does that much less within `horizon_s`: the expected time until
// the next plan. A job that does not run also pays it when it starts.
FFDL_API void discount_switches(JobRequest& request, double switch_s, double horizon_s);

}  // namespace ffdl
