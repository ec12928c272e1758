#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cluster/simulator/workload.h"
#include "ffdl/cluster/job_planner.h"
#include "ffdl/export.h"
#include "ffdl/status.h"

// Loads tables of throughputs. Blocks: reads them. Errors: kNotFound (no such folder),
// kInvalidArgument; every message names the file, the line and the column.
namespace ffdl::cluster {

// The global batches that a job may use: any listed one, or only its smallest or largest.
enum class BatchChoice { kDynamic, kMin, kMax };

// Loads one job from each '*.csv' of a folder, in order of name. Rows: global batch (first column);
// columns: numbers of workers; cells: steps per second; 0, empty or nan if not possible. The value
// of a size is its samples per second at its best batch, relative to one worker. If one worker is
// not possible, it is relative to an equal part of the smallest size.
FFDL_API Result<std::vector<JobRequest>> load_throughput_tables(
    const std::filesystem::path& folder, BatchChoice batch = BatchChoice::kDynamic);

// Loads the tables of load_throughput_tables() as programs that simulated jobs train.
FFDL_API Result<std::map<std::string, ApplicationProfile>> load_throughput_profiles(
    const std::filesystem::path& folder);

}  // namespace ffdl::cluster
