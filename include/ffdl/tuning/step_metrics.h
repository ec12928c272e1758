#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/step_participant.h"
#include "ffdl/store.h"

namespace ffdl {

struct StepMetricsOptions {
  std::string job = "job";
  uint64_t steps = 10;  // of one measurement
  // The application's own metrics, by name; the same names at all members. Each function is called
  // once a step, inside the session's end_step(), and must not call the session. NaN: no value from
  // this member, such as for a queue that all share and one member reports.
  std::map<std::string, std::function<double()>> metrics{};
};

// Measures a session's steps (step_participant.h) and publishes the result. Rank 0 writes each
// measurement into the job's store, in place of the previous one. Policies (elastic_policy.h) and
// `ffdl profile` use it. Rank 0 also publishes the job's speed with each size and batch
// that it has had (publish_speeds, autoscaler.h), by which the autoscaler plans. A new rank 0
// continues that record, which ends with the job.
// The first step of each world is left out, as it waits for new members. Speeds also leave out
// measurements over steps of several batch sizes.
// Threads: one at a time, that of the session. At rank 0 one task of the runtime, which writes.
// Owns: the record of the speeds, under a lease. `store` and `runtime` must outlive it.
// Blocks: never; the destructor until the task's present call to the store returns. Errors of the
//         store are logged, and the next measurement is tried.
// Cost: 16 bytes per member and step, and 8 for each metric.
class FFDL_API StepMetrics : public StepParticipant {
 public:
  // Creates a participant. Errors: kInvalidArgument (no steps, a metric without a name or
  // function).
  static Result<std::unique_ptr<StepMetrics>> create(Store& store,
                                                     const StepMetricsOptions& options,
                                                     Runtime& runtime = system_runtime());
};

}  // namespace ffdl
