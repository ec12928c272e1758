#pragma once

#include <string>

#include "ffdl/job_status.h"
#include "ffdl/supervisor.h"

// What scale_job() and migrate_worker() look at.
namespace ffdl::launch {

// Whether a job is on its way to the workers that it wants, and by what; empty: it has them. A
// world matters once there is one: programs need not be members of any.
std::string change_under_way(const RunStatus& run, const JobStatus& job);

}  // namespace ffdl::launch
