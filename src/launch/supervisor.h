#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/membership.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/store.h"
#include "ffdl/types.h"
#include "launch/launcher.h"

// Keeps the workers of a job running: the base of `ffdl run`.
namespace ffdl::launch {

struct SupervisorOptions {
  std::string job = "job";
  std::vector<std::string> command{};  // of each worker
  int min_workers = 1;                 // of the job, as max_workers; with fewer the job is given up
  int max_workers = 1;
  int first_workers = 0;  // started at first, until scale_job() changes it; 0: max_workers
  // The number of this node, which has one supervisor. Its workers have the numbers from
  // node * workers_per_node on.
  int node = 0;
  // Takes the first number from `node` on that no other node of the job has, by the store.
  bool takes_free_node = false;
  int workers_per_node = 1;
  int max_restarts = 3;  // of each worker
  // A worker that fails in the first minute of its first life, before any has joined the job or
  // lived for a minute, is not started again.
  bool gives_up_early = false;
  Duration grace = std::chrono::seconds(30);  // between SIGTERM and SIGKILL
  std::string log_folder{};                   // files instead of prefixed lines; it must exist
  std::string ledger_log{};  // passed to the workers (JobEnvironment::ledger_log); it must exist
  OnLostState on_lost_state = OnLostState::kRestart;  // passed to the workers
  // The store, and torchrun's MASTER_ADDR and MASTER_PORT, for the workers.
  std::string store_url{};
  std::string store_secret{};
  std::string master_address = "127.0.0.1";
  int master_port = 0;
};

// Starts the workers of one node, "worker-0" and so on, and restarts those that fail. It reports
// each death to the job (membership.h) before the worker's next life begins.
// Threads: run() from one; stop() and kill() from any. Two tasks of the runtime, which keep the
//          job's records in the store.
// Owns: nothing: all references must outlive it.
// Blocks: run() until the job is over on this node; the destructor until the tasks' present calls
//         to the store return.
class FFDL_API Supervisor {
 public:
  // Starts a supervisor. `exited` is the event that `launcher` sets.
  // Errors: kInvalidArgument, kConflict (this node of the job has a supervisor, or each node that
  // it may be has one), and those of Store.
  static Result<std::unique_ptr<Supervisor>> start(Store& store, Runtime& runtime,
                                                   Launcher& launcher, Event& exited,
                                                   const SupervisorOptions& options);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Returns the number of this node.
  int node() const;
  // Runs the workers until the job is over here. Returns ok if every wanted worker has ended with
  // 0, except lost ones that are not needed. Errors: kExhausted (too few are left), kCancelled
  // (stop() or kill() was called), those of Launcher::start.
  Status run();
  // Asks all workers to end, and kills them after the grace period.
  void stop();
  // Kills all workers now.
  void kill();

 private:
  class Impl;
  explicit Supervisor(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl::launch
