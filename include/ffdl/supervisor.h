#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/launcher.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/store.h"
#include "ffdl/types.h"

// Keeps the workers of a job running: what `ffdl run`, `ffdl scale` and `ffdl status` are made of.
// docs/launch.md
namespace ffdl {

struct SupervisorOptions {
  std::string job = "job";
  std::vector<std::string> command{};  // what each worker runs
  int min_workers = 1;                 // of the job, as is the next: with fewer it is given up
  int max_workers = 1;
  int first_workers = 0;  // so many are started, until scale_job() asks for others; 0: max_workers
  // One supervisor runs on each node: workers number node * workers_per_node and up.
  int node = 0;
  int workers_per_node = 1;
  int max_restarts = 3;                       // of each worker
  Duration grace = std::chrono::seconds(30);  // between SIGTERM and SIGKILL
  std::string log_folder{};                   // files instead of prefixed lines; it must exist
  std::string ledger_log{};  // told to the workers, as JobEnvironment::ledger_log; it must exist
  // Told to the workers: where they find the store, and torchrun's MASTER_ADDR and MASTER_PORT.
  std::string store_url{};
  std::string store_secret{};
  std::string master_address = "127.0.0.1";
  int master_port = 0;
};

// Starts the workers of one node, "worker-0" and so on, and starts those again that fail. The death
// of each is reported to the job (membership.h) before its next life begins.
// Threads: run() from one; stop() and kill() from any. Two tasks of the runtime, which keep the
//          job's records in the store.
// Owns: nothing: all references must outlive it.
// Blocks: run() until the job is over on this node; the destructor until the tasks' present calls
//         to the store return.
class FFDL_API Supervisor {
 public:
  // `exited` is the event that `launcher` sets.
  // Errors: kInvalidArgument, kConflict (this node of the job has a supervisor), and those of
  // Store.
  static Result<std::unique_ptr<Supervisor>> start(Store& store, Runtime& runtime,
                                                   Launcher& launcher, Event& exited,
                                                   const SupervisorOptions& options);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Ok: every worker that is wanted here has ended with 0, but for some that were lost and are not
  // needed. Errors: kExhausted (too few are left), kCancelled (stop() or kill() was called), those
  // of Launcher::start.
  Status run();
  // Asks all workers to end, and kills them when the grace has passed.
  void stop();
  // Kills them now.
  void kill();

 private:
  class Impl;
  explicit Supervisor(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

struct WorkerStatus {
  std::string id{};
  std::string phase{};  // idle, running, stopping, paused, finished or lost
  int64_t process = 0;  // of the life that runs, or the last one
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
  int takes_over_from = -1;  // the one whose place it takes; -1: nobody
};

struct RunStatus {
  std::vector<WantedWorker> wanted_workers{};  // in the order of the RANK they are told
  std::vector<NodeStatus> nodes{};             // whose supervisors live; none: nobody runs the job
};

// Only reads. Errors: those of Store.
FFDL_API Result<RunStatus> read_run(Store& store, std::string_view job);

// What becomes of a request while the job is still on its way to what was asked for before: workers
// start, end or join, or a world is forming.
enum class DuringChange {
  kMerge,   // both become one change where they can, of which the later request decides
  kRefuse,  // kUnavailable, and nothing is changed: try again
};

// From now on the job wants so many workers. Its supervisors start those that are missing, with the
// smallest numbers, and ask the last ones to end: those with the largest numbers, or those that
// took over from them.
// Errors: kNotFound (nobody runs the job), kInvalidArgument (fewer than its min_workers or more
// than its max_workers), kUnavailable (kRefuse, and another change is under way), and those of
// Store.
FFDL_API Status scale_job(Store& store, std::string_view job, int workers,
                          DuringChange during = DuringChange::kMerge);

// From now on the job wants worker `to` in the place of worker `from`, which goes on until the
// other has taken over and is asked for nothing. None: the idle one with the smallest number.
// Returns which one that is.
// Errors: kNotFound (nobody runs the job), kInvalidArgument (`from` is not wanted, `to` is, or is
// not idle, or nobody is), kUnavailable (kRefuse, and another change is under way), and those of
// Store.
FFDL_API Result<int> migrate_worker(Store& store, std::string_view job, int from,
                                    std::optional<int> to = std::nullopt,
                                    DuringChange during = DuringChange::kMerge);

}  // namespace ffdl
