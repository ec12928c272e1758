#pragma once

#include <chrono>

#include "ffdl/cluster/job_planner.h"
#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/store.h"
#include "ffdl/types.h"

namespace ffdl {

struct AutoscalerOptions {
  WhenFull when_full = WhenFull::kQueue;
  Duration interval = std::chrono::seconds(60);  // between decisions without an event
  // The cost of a change of size for a job, and the time within which it must pay off
  // (discount_switches).
  Duration switch_cost = std::chrono::seconds(1);
  Duration horizon = std::chrono::seconds(300);
};

// Decides by plan_jobs() when a job enters or ends, when nodes change, and at each
// interval. Publishes the decisions; running jobs follow without a stop.
// Workers are given to a job once their previous users on the same node have ended. A job does not
// move: it grows by workers beside its own, and shrinks by releasing some of them.
// It keeps no state: after a kill, another call continues from the store, and until then the jobs
// keep training. A second autoscaler waits for the end of the first.
// Threads: the caller's alone.
// Blocks: until `stop`, up to about a second longer.
// Errors: kCancelled (`stop` was requested), kInvalidArgument (the options). Errors of the store
//         are logged, and the operation is tried again.
FFDL_API Status run_autoscaler(Store& store, Runtime& runtime, const AutoscalerOptions& options,
                               const StopToken& stop);

}  // namespace ffdl
