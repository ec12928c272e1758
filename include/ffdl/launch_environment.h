#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

// What the environment of a process says about who started it, and for what.
namespace ffdl {

// What a launcher tells the processes that it starts. torchrun does it by twelve environment
// variables, which are read first; Open MPI, Slurm and launchers that speak PMI tell less.
struct LaunchEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 0;  // 0: not told
  int group_rank = 0;        // of the node
  int role_rank = 0;
  int role_world_size = 0;  // 0: not told
  int restart_count = 0;
  int max_restarts = 0;
  std::string master_address{};  // empty: not told
  int master_port = 0;           // 0: not told
  std::string run_id{};          // empty: not told

  bool operator==(const LaunchEnvironment&) const = default;
};

// None: none of these launchers started this process.
// Errors: kInvalidArgument (a variable that is no number, is missing or contradicts another).
FFDL_API Result<std::optional<LaunchEnvironment>> launch_environment();
// torchrun's twelve variables as "NAME=value", for those who start processes.
FFDL_API std::vector<std::string> launch_variables(const LaunchEnvironment& environment);

// The world of a launcher that starts a fixed number of workers, "worker-0" and so on; a restart of
// all of them is the next generation.
FFDL_API World world_of(const LaunchEnvironment& environment);

// What `ffdl run` tells its workers beside torchrun's variables; docs/launch.md lists them. A
// worker opens the store and joins the job under this id.
struct JobEnvironment {
  std::string store_url{};        // FFDL_STORE
  std::string store_secret{};     // FFDL_STORE_SECRET
  std::string job = "job";        // FFDL_JOB
  std::string worker_id{};        // FFDL_WORKER_ID
  int min_workers = 1;            // FFDL_MIN_WORKERS
  int max_workers = 256;          // FFDL_MAX_WORKERS
  std::string takes_over_from{};  // FFDL_TAKES_OVER_FROM; empty: nobody
  // FFDL_LEDGER_LOG: the folder where each worker logs what its ledger tells (commit_log.h); empty:
  // nobody does.
  std::string ledger_log{};

  bool operator==(const JobEnvironment&) const = default;
};

// None: FFDL_STORE is not set.
// Errors: kInvalidArgument (another variable is missing, or is no number).
FFDL_API Result<std::optional<JobEnvironment>> job_environment();
// The same as "NAME=value", for those who start workers.
FFDL_API std::vector<std::string> job_variables(const JobEnvironment& environment);

}  // namespace ffdl
