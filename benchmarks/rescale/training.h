#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/harness/resident.h"
#include "benchmarks/rescale/audit.h"
#include "benchmarks/rescale/pause.h"
#include "benchmarks/rescale/store_folder.h"

namespace ffdl::bench {

// The way in which a worker ends.
enum class End { kLeaves, kKilled, kKilledLeader };

// The reports of a launcher to the job.
enum class Reports { kNothing, kDeaths };

// Starts a process that trains as the member `id` of the job with its store in `folder`, until it
// is killed or leaves. Returns when it is a member. For "after M K" it answers when its last K
// steps had M members each. For "report" it returns the steps since the last report, as
// read_steps() reads them. For "leave" it leaves. It records the samples that it used in
// folder/audit-ID, as check_audit() reads it.
using StartWorker = std::function<Result<std::unique_ptr<Resident>>(const std::string& folder,
                                                                    const std::string& id)>;

// A job of one or two workers and their store. Each worker is a resident process that trains
// without a pause; another process serves the store.
// Threads: one. Owns: the processes and the store.
class Training {
 public:
  static Result<std::unique_ptr<Training>> start(StartWorker start_worker);
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  // Waits until the remaining worker has made `steps` steps in a world of `members` members.
  Status wait(int members, int steps);
  // Adds a worker. Returns the time of the request, before its process began.
  Result<Time> add();
  // Removes the newest worker, or the leader, which is the oldest. Returns the time of the request.
  Result<Time> remove(End end);
  // Stops the older of two workers, kills the newer one once it trains alone, and lets the older
  // one continue at once. Returns the time of the kill.
  Result<Time> stall_then_kill(Reports reports);
  // Returns the steps of the remaining worker since it began.
  Result<std::vector<StepTime>> steps();
  // Ends the members and returns the audit of their samples.
  Result<AuditResult> audit();

 private:
  struct Worker {
    std::unique_ptr<Resident> process;
    std::vector<StepTime> steps;
  };
  Training(std::unique_ptr<StoreFolder> store, StartWorker start_worker)
      : store_(std::move(store)), start_worker_(std::move(start_worker)) {}
  static void end(std::vector<Worker>& workers);
  Status report_death_of(const std::string& id) const;

  const std::unique_ptr<StoreFolder> store_;
  const StartWorker start_worker_;
  std::vector<Worker> workers_;  // by age; the first is the one that remains
  std::vector<Worker> gone_;     // left or killed
  std::vector<std::string> ids_;
};

}  // namespace ffdl::bench
