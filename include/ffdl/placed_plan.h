#pragma once

#include <span>
#include <string>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/job_planner.h"
#include "ffdl/status.h"

// Which job gets how many workers where nodes have boundaries: the plan of job_planner.h, but that
// a size is worth its value only if its workers lie as it asks: together on few nodes (PACK), apart
// (SPREAD), or anywhere. A job that is faster within a node than across lists both:
//   {4, 3.8, .nodes_max = 1}, {4, 3.1}
// The smallest of its sizes is its gang: all of that at once, or it waits, if it may.
namespace ffdl {

struct PlacedShare {
  std::string name{};
  int workers = 0;  // 0: it waits
  int64_t batch = 0;
  double value = 0;
  float uncertainty = 0;
  std::vector<NodeWorkers> nodes{};
  // As of JobShare (job_planner.h), and where it lies, and what it would have without boundaries.
  std::string explanation{};
};

struct PlacedPlan {
  bool feasible = true;
  std::string reason{};  // why it is not feasible; empty otherwise
  double total = 0;      // sum of the jobs' values, switch costs taken off
  double bound = 0;      // no plan is worth more
  bool is_best = false;  // the total is the bound: no plan is better
  int plans_tried = 0;
  std::vector<PlacedShare> jobs{};  // in the order of the requests; empty if not feasible
};

struct PlacementOptions {
  int plans_max = 300;           // that are made without boundaries and then tried to be placed
  int placements_max = 100'000;  // steps of the search for places, for each of these
  std::vector<std::string> node_names{};  // for explanations; none: nodes are called by numbers
};

// The best plan for nodes with room for so many workers each: a search by branch and bound, whose
// bound is the plan without boundaries. What cannot be placed is taken apart: at least one of those
// sizes must be another. Where that ends within the options the plan is the best one; otherwise it
// is the best that was found, and `bound` says how much better another could be at most. To place
// the workers of a given plan is a packing problem in itself, so no method ends early always.
// In the requests a number of workers may be listed several times, with other demands on nodes.
// Blocks: computes, up to `plans_max` times as long as plan_jobs() and the search for places.
// Where workers lie already is kept where it can be, or must be (JobRequest::may_move); to be moved
// costs a job nothing in `total`.
// Errors: kInvalidArgument (a request that makes no sense, a node below 0), and those of
// plan_jobs().
FFDL_API Result<PlacedPlan> plan_placed_jobs(std::span<const JobRequest> jobs,
                                             std::span<const int> nodes,
                                             const PlacementOptions& options = {});

}  // namespace ffdl
