#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/harness/resident.h"
#include "benchmarks/rescale/audit.h"
#include "benchmarks/rescale/pause.h"
#include "benchmarks/rescale/store_folder.h"
#include "benchmarks/rescale/trainer.h"

namespace ffdl::bench {

// How a worker ends.
enum class End { kLeaves, kKilled, kKilledLeader };

// A job of one or two workers, each a resident process that trains without a pause, over a store
// that a process beside them serves.
// Threads: one. Owns: the processes and the store.
class Training {
 public:
  static Result<std::unique_ptr<Training>> start(const Shape& shape);
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
  Training(std::unique_ptr<StoreFolder> store, const Shape& shape)
      : store_(std::move(store)), shape_(shape) {}
  static void end(std::vector<Worker>& workers);

  const std::unique_ptr<StoreFolder> store_;
  const Shape shape_;
  std::vector<Worker> workers_;  // by age; the first is the one that stays
  std::vector<Worker> gone_;     // have left, or been killed
  std::vector<std::string> ids_;
};

}  // namespace ffdl::bench
