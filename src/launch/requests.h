#pragma once

#include <string>

#include "ffdl/launch/running_job.h"
#include "ffdl/membership.h"

// The check that scale_job() and migrate_worker() share.
namespace ffdl::launch {

// Returns the change that a job still needs to have the workers it wants; empty: none. A world
// matters once there is one: programs need not be members of any.
std::string change_under_way(const RunStatus& run, const JobStatus& job);

}  // namespace ffdl::launch
