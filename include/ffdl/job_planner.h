#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/status.h"

// Which job gets how many workers, and which batch: a function of values, not a service. It
// maximises
//   sum over jobs of value(workers of that job)
// over all ways to give every job one of its sizes without using more workers than there are. The
// answer is exact for any shape of the values: with gaps, minimums, powers of two, several humps.
namespace ffdl {

// One size that a job can run at.
struct SizeOption {
  int workers = 0;
  double value = 0;   // what that size is worth: for the paper's objective, the scaling factor S(k)
  int64_t batch = 0;  // the global batch that makes it so; only passed through
  // Standard deviation of the value relative to it, where a model predicts it; only passed through.
  float uncertainty = 0;
  // How its workers must lie to be worth that, for plan_placed_jobs(); 0: as they like.
  int16_t nodes_max = 0;     // on so many nodes at most (PACK)
  int16_t per_node_max = 0;  // so many on one node at most (SPREAD)

  bool operator==(const SizeOption&) const = default;
};

// Some of a job's workers, all on one node.
struct NodeWorkers {
  int node = 0;  // its place in the list of nodes
  int workers = 0;

  bool operator==(const NodeWorkers&) const = default;
};

struct JobRequest {
  std::string name;
  std::vector<SizeOption> sizes{};  // any order; each number of workers at most once
  bool may_wait = false;            // 0 workers, worth 0, is allowed too
  int current_workers = 0;          // 0: not running
  double switch_cost = 0;           // taken off the value of every other size than the current one
  std::string source{};  // where it was read, for messages: "'jobs.yaml': line 3, column 5"
  // The rest is for plan_placed_jobs().
  std::vector<int> only_nodes{};             // where its workers may lie; empty: on any node
  std::vector<NodeWorkers> current_nodes{};  // where those of the present size lie
  // A job that may move does if the others do not fit beside it, or its size changes. One that may
  // not grows by workers beside those that it has, and shrinks by giving some of them back.
  bool may_move = true;
};

// What one job got, and the sizes beside it: what fewer or more workers would change.
struct JobShare {
  std::string name;
  int workers = 0;  // 0: it waits
  int64_t batch = 0;
  double value = 0;  // as requested, before any switch cost
  float uncertainty = 0;
  std::optional<SizeOption> smaller;
  std::optional<SizeOption> larger;
};

struct Plan {
  bool feasible = true;
  std::string reason;  // why it is not feasible; empty otherwise
  double total = 0;    // sum of the jobs' values, switch costs taken off
  int workers_used = 0;
  std::vector<JobShare> jobs;  // in the order of the requests; empty if not feasible
};

// The best plan. Two plans of equal total: the one with fewer workers is preferred.
//
// Time: linear in the number of sizes where the values are concave. Otherwise the sizes that cannot
// be part of a best plan are excluded by a bound first, and the dynamic program runs over the rest:
// at worst jobs x workers x sizes steps and 2 bytes x jobs x workers of memory.
//
// Nothing is asked of where workers lie: placed_plan.h does.
//
// Errors: kInvalidArgument (a request that makes no sense; the message names the job), kExhausted
// (the table would need more than 2 GiB). Too few workers for all jobs is not an error but a plan
// that says so.
FFDL_API Result<Plan> plan_jobs(std::span<const JobRequest> jobs, int workers_available);

// One sentence: what the job got, and what fewer or more workers would change.
FFDL_API std::string explain(const JobShare& share);

}  // namespace ffdl
