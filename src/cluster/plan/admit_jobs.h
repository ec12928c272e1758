#pragma once

#include <optional>
#include <span>

#include "cluster/plan/placed_request.h"
#include "ffdl/cluster/job_planner.h"

// Admits jobs in order of arrival, and shares the workers among the admitted ones
// (PlanOptions::when_full). A job without a size must wait: the planners check that it may.
namespace ffdl::cluster {

// Admits a job if its smallest size and those of all admitted jobs have no more workers than there
// are. None: a request depends on nodes. Errors: those of plan_without_nodes().
Result<std::optional<Plan>> admit_without_nodes(std::span<const JobRequest> jobs, int workers,
                                                WhenFull when_full);

// Admits a job if its smallest size can be placed beside those of all admitted jobs. Errors: those
// of plan_on_nodes().
Result<Plan> admit_on_nodes(std::span<const PlacedRequest> jobs,
                            std::span<const NodeWorkers> cluster, const PlanOptions& options);

}  // namespace ffdl::cluster
