#pragma once

#include <optional>
#include <span>

#include "cluster/plan/placed_request.h"
#include "ffdl/cluster/job_planner.h"

// The two planners behind plan_jobs().
namespace ffdl::cluster {

// Returns true if a job's plan depends on nodes.
bool depends_on_nodes(const JobRequest& job);

// Plans without boundaries of nodes. The allocations have no nodes. None: a request depends on
// nodes (depends_on_nodes). Errors: kInvalidArgument (an invalid request, a number of workers
// listed twice), kExhausted.
Result<std::optional<Plan>> plan_without_nodes(std::span<const JobRequest> jobs, int workers);

// Plans on nodes. Errors: kInvalidArgument (an invalid request or option), and those of
// plan_without_nodes().
Result<Plan> plan_on_nodes(std::span<const PlacedRequest> jobs,
                           std::span<const NodeWorkers> cluster, const PlanOptions& options);

}  // namespace ffdl::cluster
