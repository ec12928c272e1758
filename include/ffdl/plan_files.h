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
//     - name: bert                      # 4 workers are worth 3.8 on one node, and 3.1 otherwise;
//       sizes: [{workers: 4, scaling: 3.8, nodes_max: 1}, {workers: 4, scaling: 3.1},
//               {workers: 2, scaling: 1.9, per_node_max: 1}]     # 2 on two nodes (placed_plan.h)
//     - name: gpt                       # as `ffdl profile` has measured it, and the scaling model
//       profile: gpt.json               # predicts for other sizes; the file lies beside this one
//       max_workers: 16                 # or as many as were measured
//       max_batch: 512                  # and min_batch: chosen for each size; or the job's own
//       device_memory: 16000000000      # bytes that a worker's part of the batch must fit into
// Or the file is what `ffdl profile` has written: one job.
FFDL_API Result<std::vector<JobRequest>> load_job_requests(const std::filesystem::path& file);

// The same tables as programs that simulated jobs train.
FFDL_API Result<std::map<std::string, ApplicationProfile>> load_throughput_profiles(
    const std::filesystem::path& folder);

// A workload: name, time (s), application, num_replicas, batch_size. Or the trace of a cluster:
// job_id, submission_time, duration (s), num_gpu; such jobs come in order of arrival, the first at
// 0 s, and train any program (draw_programs).
FFDL_API Result<std::vector<WorkloadJob>> load_workload(const std::filesystem::path& file);

// A folder with one folder for each application: placements.csv (placement, local_bsz, step_time,
// sync_time; the digits of a placement are the workers of each node), scalability.csv (num_nodes,
// num_replicas instead), and validation-<batch>.csv (progress, grad_sqr, grad_var of each epoch).
FFDL_API Result<std::map<std::string, ApplicationProfile>> load_profiles(
    const std::filesystem::path& folder);

}  // namespace ffdl
