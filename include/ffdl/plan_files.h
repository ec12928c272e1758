#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ffdl/cluster_simulator.h"
#include "ffdl/export.h"
#include "ffdl/job_planner.h"
#include "ffdl/status.h"

// Requests for the planner from files. Blocks: reads them. Errors: kNotFound (no such file),
// kInvalidArgument; every message names the file, the line and the column.
namespace ffdl {

// Which global batches a job may use: any listed one, or only its smallest or largest.
enum class BatchChoice { kDynamic, kMin, kMax };

// One job for each '*.csv' of a folder, in order of name. Rows: global batch (first column);
// columns: numbers of workers; cells: steps per second; 0, empty or nan where not possible. The
// value of a size is its samples per second at its best batch, relative to one worker (where one
// worker is not possible: to an equal part of the smallest size).
FFDL_API Result<std::vector<JobRequest>> load_throughput_tables(
    const std::filesystem::path& folder, BatchChoice batch = BatchChoice::kDynamic);

// Jobs as they are written by hand, YAML or JSON:
//   jobs:
//     - name: resnet
//       scaling: [1.0, 1.9, 2.7]        # of 1, 2, 3 workers; or
//       sizes: [{workers: 4, scaling: 3.1, batch: 512}]
//       min_workers: 2                  # and max_workers, may_wait, current_workers, switch_cost:
//                                       # as they are wanted
FFDL_API Result<std::vector<JobRequest>> load_job_requests(const std::filesystem::path& file);

// A workload: name, time (s), application, num_replicas, batch_size.
FFDL_API Result<std::vector<WorkloadJob>> load_workload(const std::filesystem::path& file);

// A folder with one folder for each application: placements.csv (placement, local_bsz, step_time,
// sync_time; the digits of a placement are the workers of each node), scalability.csv (num_nodes,
// num_replicas instead), and validation-<batch>.csv (progress, grad_sqr, grad_var of each epoch).
FFDL_API Result<std::map<std::string, ApplicationProfile>> load_profiles(
    const std::filesystem::path& folder);

}  // namespace ffdl
