#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/membership.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

// The environment of a process: its launcher and its job.
namespace ffdl {

// The values that a launcher passes to its processes. torchrun sets twelve environment variables,
// which have priority. Open MPI, Slurm and launchers that use PMI set fewer variables.
struct LaunchEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 0;  // 0: not set
  int group_rank = 0;        // rank of the node
  int role_rank = 0;
  int role_world_size = 0;  // 0: not set
  int restart_count = 0;
  int max_restarts = 0;
  std::string master_address{};  // empty: not set
  int master_port = 0;           // 0: not set
  std::string run_id{};          // empty: not set

  bool operator==(const LaunchEnvironment&) const = default;
};

// Reads the variables of a launcher. Returns none if no such launcher started this process.
// Errors: kInvalidArgument (a variable is not a number, is missing or contradicts another one).
FFDL_API Result<std::optional<LaunchEnvironment>> launch_environment();
// Returns torchrun's twelve variables as "NAME=value", for starting processes.
FFDL_API std::vector<std::string> launch_variables(const LaunchEnvironment& environment);

// Returns the world of a launcher with a fixed number of workers, "worker-0" and so on. A restart
// of all workers begins the next generation.
FFDL_API World world_of(const LaunchEnvironment& environment);

// The values that `ffdl run` passes to its workers besides torchrun's variables;
// docs/guide/launch.md lists them. A worker opens the store and joins the job under this id.
struct JobEnvironment {
  std::string store_url{};        // FFDL_STORE
  std::string store_secret{};     // FFDL_STORE_SECRET
  std::string job = "job";        // FFDL_JOB
  std::string worker_id{};        // FFDL_WORKER_ID
  int min_workers = 1;            // FFDL_MIN_WORKERS
  int max_workers = 256;          // FFDL_MAX_WORKERS
  std::string takes_over_from{};  // FFDL_TAKES_OVER_FROM; empty: no member
  // The folder for each worker's log of its ledger's commits (commit_log.h): FFDL_LEDGER_LOG.
  // Empty: no logs.
  std::string ledger_log{};
  OnLostState on_lost_state = OnLostState::kRestart;  // FFDL_ON_LOST_STATE: restart or fail

  bool operator==(const JobEnvironment&) const = default;
};

// Reads the variables of `ffdl run`. Returns none if FFDL_STORE is not set.
// Errors: kInvalidArgument (another variable is missing, or has no valid value).
FFDL_API Result<std::optional<JobEnvironment>> job_environment();
// Returns the variables of `ffdl run` as "NAME=value", for starting workers.
FFDL_API std::vector<std::string> job_variables(const JobEnvironment& environment);
// Returns the options with which a worker joins the job. Times have their defaults.
FFDL_API MembershipOptions membership_options(const JobEnvironment& environment);

}  // namespace ffdl
