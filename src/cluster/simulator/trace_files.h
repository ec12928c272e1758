#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cluster/simulator/workload.h"
#include "ffdl/export.h"
#include "ffdl/status.h"

// Loads workloads and profiles from files. Blocks: reads them. Errors: kNotFound (no such file),
// kInvalidArgument; every message names the file, the line and the column.
namespace ffdl::cluster {

// Loads a workload: name, time (s), application, num_replicas, batch_size. Or the trace of a
// cluster: job_id, submission_time, duration (s), num_gpu. Jobs of a trace are in order of arrival,
// the first at 0 s, and train any program (draw_programs).
FFDL_API Result<std::vector<WorkloadJob>> load_workload(const std::filesystem::path& file);

// Loads a folder with one folder for each application: placements.csv (placement, local_bsz,
// step_time, sync_time; the digits of a placement are the workers of each node), scalability.csv
// (num_nodes, num_replicas instead), and validation-<batch>.csv (progress, grad_sqr, grad_var of
// each epoch).
FFDL_API Result<std::map<std::string, ApplicationProfile>> load_profiles(
    const std::filesystem::path& folder);

}  // namespace ffdl::cluster
