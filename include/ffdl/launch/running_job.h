#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/status.h"
#include "ffdl/store.h"

// Reads and changes the workers of a job that `ffdl run` keeps running: the base of `ffdl status`,
// `ffdl scale` and `ffdl migrate` (docs/guide/launch.md). Threads: all functions from any thread.
// Blocks: until the store answers.
namespace ffdl {

struct WorkerStatus {
  std::string id{};
  std::string phase{};  // idle, running, stopping, paused, finished or lost
  int64_t process = 0;  // of the present life, or the last one
  int restarts = 0;
};

struct NodeStatus {
  int node = 0;
  int64_t process = 0;  // of its supervisor
  int min_workers = 0;  // of the job
  int max_workers = 0;
  std::vector<WorkerStatus> workers{};
};

struct WantedWorker {
  int number = 0;            // of "worker-0" and so on
  int takes_over_from = -1;  // the worker that it replaces; -1: none
};

struct RunStatus {
  std::vector<WantedWorker> wanted_workers{};  // in the order of their RANK
  std::vector<NodeStatus> nodes{};  // those with a living supervisor; empty: the job is not running
};

// Reads the status of a run and changes nothing. Errors: those of Store.
FFDL_API Result<RunStatus> read_run(Store& store, std::string_view job);

// The treatment of a request during another change of the job: workers start, end or join, or a
// world is forming.
enum class DuringChange {
  kMerge,   // both become one change where possible; the later request decides
  kRefuse,  // kUnavailable, and nothing is changed: try again
};

// Sets the number of workers that the job wants. Its supervisors start missing workers, with the
// smallest numbers. They ask the last ones to end: those with the largest numbers, or those that
// took over from them.
// Errors: kNotFound (the job is not running), kInvalidArgument (fewer than its min_workers or more
// than its max_workers), kUnavailable (kRefuse, and another change is in progress), and those of
// Store.
FFDL_API Status scale_job(Store& store, std::string_view job, int workers,
                          DuringChange during = DuringChange::kMerge);

// Replaces worker `from` of a job by worker `to`. `from` continues until the other one has taken
// over, and is asked for nothing. Without `to`: the idle worker with the smallest number. Returns
// the number of the new worker.
// Errors: kNotFound (the job is not running), kInvalidArgument (`from` is not wanted; `to` is
// wanted or not idle; no worker is idle), kUnavailable (kRefuse, and another change is in
// progress), and those of Store.
FFDL_API Result<int> migrate_worker(Store& store, std::string_view job, int from,
                                    std::optional<int> to = std::nullopt,
                                    DuringChange during = DuringChange::kMerge);

}  // namespace ffdl
