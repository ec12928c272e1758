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

// How a worker ends.
enum class End { kLeaves, kKilled, kKilledLeader };

// Starts a process that trains, as the member `id` of the job whose store is in `folder`, until it
// is killed or leaves; returns when it is a member. Asked "after M K" it answers when its last K
// steps had M members each; "report" gives the steps since the last report, as read_steps() reads
// them; "leave" makes it leave. What it used of its samples it writes into folder/audit-ID, as
// check_audit() reads it.
using StartWorker = std::function<Result<std::unique_ptr<Resident>>(const std::string& folder,
                                                                    const std::string& id)>;

// A job of one or two workers, each a resident process that trains without a pause, over a store
// that a process beside them serves.
// Threads: one. Owns: the processes and the store.
class Training {
 public:
  static Result<std::unique_ptr<Training>> start(StartWorker start_worker);
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  // Until the worker that stays has made so many steps in a world of so many members.
  Status wait(int members, int steps);
  // One more. The time of the request, before its process began.
  Result<Time> add();
  // The one that came last; or the one that leads, which came first. The time of the request.
  Result<Time> remove(End end);
  // Of the worker that stays: all since it began.
  Result<std::vector<StepTime>> steps();
  // What the members wrote down of the samples. Ends them first.
  Result<AuditResult> audit();

 private:
  struct Worker {
    std::unique_ptr<Resident> process;
    std::vector<StepTime> steps;
  };
  Training(std::unique_ptr<StoreFolder> store, StartWorker start_worker)
      : store_(std::move(store)), start_worker_(std::move(start_worker)) {}
  static void end(std::vector<Worker>& workers);

  const std::unique_ptr<StoreFolder> store_;
  const StartWorker start_worker_;
  std::vector<Worker> workers_;  // by age; the first is the one that stays
  std::vector<Worker> gone_;     // have left, or been killed
  std::vector<std::string> ids_;
};

}  // namespace ffdl::bench
