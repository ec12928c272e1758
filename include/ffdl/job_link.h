#pragma once

#include <chrono>
#include <memory>
#include <string_view>

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

// What a job that trains and the autoscaler (autoscaler.h) tell each other meanwhile: how fast the
// steps are, from which the autoscaler learns what each size is worth; and with which batch it
// should train. A step is never held up by it: a task of the runtime talks to the store.
//   auto link = JobLink::open(*store, system_runtime(), job);
//   ... after each step:
//   if (session.world().rank == 0) (*link)->report(workers, batch->samples(), took);
//   const AdmittedJob wanted = (*link)->wanted();
//   if (wanted.batch > 0) batch->want(wanted.batch, wanted.workers);  // agreed_batch.h
// Threads: report() and wanted() from any. A task of the runtime.
// Owns: a record of the speeds, under a lease. `store` and `runtime` must outlive it.
// Blocks: the destructor, until the task's present call to the store returns.
class FFDL_API JobLink {
 public:
  // Goes on from what another member of the job, rank 0 before this one, has reported. The store is
  // that of `ffdl autoscale`. Tells and asks about once per `interval`. Errors: kInvalidArgument
  // (no name, an interval of 0).
  static Result<std::unique_ptr<JobLink>> open(Store& store, Runtime& runtime, std::string_view job,
                                               Duration interval = std::chrono::seconds(1));
  ~JobLink();
  JobLink(const JobLink&) = delete;
  JobLink& operator=(const JobLink&) = delete;

  // A step took so long, for `workers` members and `batch` samples together. By one member, rank 0.
  // The first step with other workers or another batch is not counted: it was not like the others.
  void report(int workers, int64_t batch, Duration step);

  // What the autoscaler has decided last; 0 workers: nothing yet, or it waits. The batch is that
  // for so many workers, 0 if there is no wish.
  AdmittedJob wanted() const;

 private:
  class Impl;
  explicit JobLink(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ffdl
