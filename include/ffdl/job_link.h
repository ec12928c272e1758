#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ffdl/autoscaler.h"
#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/store.h"

namespace ffdl {

// How fast a job was with so many workers and such a batch.
struct MeasuredSpeed {
  int workers = 0;
  int64_t batch = 0;   // of a step, over all workers
  uint64_t steps = 0;  // that were measured
  double step_s = 0;   // the mean of the last hundred or so

  bool operator==(const MeasuredSpeed&) const = default;
};

// What a job has reported of each size and batch that it has had: StepMeter does (step_meter.h),
// and the autoscaler learns from it what sizes are worth. Under a lease of the job's, as a later
// job of this name may be another program. Errors: kInvalidArgument (no name), and those of Store.
FFDL_API Status publish_speeds(Store& store, std::string_view job,
                               std::span<const MeasuredSpeed> speeds, LeaseId lease);
// Errors: kNotFound (nothing was reported, or the job is gone), kCorrupt, and those of Store.
FFDL_API Result<std::vector<MeasuredSpeed>> read_speeds(Store& store, std::string_view job);

// With which batch the autoscaler (autoscaler.h) wants a job to train, while it does. A step is
// never held up by it: a task of the runtime asks the store.
//   auto link = JobLink::open(*store, system_runtime(), job);
//   ... after each step:
//   const AdmittedJob wanted = (*link)->wanted();
//   if (wanted.batch > 0) batch->want(wanted.batch, wanted.workers);  // agreed_batch.h
// Threads: wanted() from any. A task of the runtime.
// Owns: nothing: `store` and `runtime` must outlive it.
// Blocks: the destructor, until the task's present call to the store returns.
class FFDL_API JobLink {
 public:
  // The store is that of `ffdl autoscale`. Asks about once per `interval`. Errors: kInvalidArgument
  // (no name, an interval of 0).
  static Result<std::unique_ptr<JobLink>> open(Store& store, Runtime& runtime, std::string_view job,
                                               Duration interval = std::chrono::seconds(1));
  ~JobLink();
  JobLink(const JobLink&) = delete;
  JobLink& operator=(const JobLink&) = delete;

  // What the autoscaler has decided last; 0 workers: nothing yet, or it waits. The batch is that
  // for so many workers, 0 if there is no wish.
  AdmittedJob wanted() const;

 private:
  class Impl;
  explicit JobLink(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
