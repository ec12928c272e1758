#pragma once

#include <filesystem>
#include <vector>

#include "ffdl/cluster/job_planner.h"
#include "ffdl/export.h"
#include "ffdl/status.h"

namespace ffdl::cluster {

// Loads jobs from a file written by hand, YAML or JSON:
//   jobs:
//     - name: resnet
//       scaling: [1.0, 1.9, 2.7]        # of 1, 2, 3 workers; or
//       sizes: [{workers: 4, scaling: 3.1, batch: 512}]
//       min_workers: 2                  # and max_workers, may_wait, current_workers, switch_cost:
//                                       # each is optional
//     - name: bert                      # 4 workers have value 3.8 on one node, and 3.1 otherwise;
//       sizes: [{workers: 4, scaling: 3.8, nodes_max: 1}, {workers: 4, scaling: 3.1},
//               {workers: 2, scaling: 1.9, per_node_max: 1}]     # 2 on two nodes (job_planner.h)
//     - name: gpt                       # as measured by `ffdl profile`; the scaling model predicts
//       profile: gpt.json               # other sizes; the file is in the folder of this one
//       max_workers: 16                 # or the largest measured number
//       max_batch: 512                  # and min_batch: chosen for each size; or the job's own
//       device_memory: 16000000000      # bytes that a worker's part of the batch must fit into
// The file may also be the output of `ffdl profile`: one job. Blocks: reads it. Errors: kNotFound
// (no such file), kInvalidArgument; every message names the file, the line and the column.
FFDL_API Result<std::vector<JobRequest>> load_job_requests(const std::filesystem::path& file);

}  // namespace ffdl::cluster
