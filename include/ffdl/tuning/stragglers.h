#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/step_participant.h"
#include "ffdl/store.h"
#include "ffdl/types.h"

namespace ffdl {

// A member for which the others wait.
struct Straggler {
  Member member{};     // without its address
  double factor = 0;   // its time per sample over the median of all: the mean of `steps` steps
  uint64_t steps = 0;  // consecutive slow steps
  uint64_t step = 0;   // the last of them
};

struct StragglerOptions {
  double factor = 1.2;  // a member is slow if its time is this many times the median
  uint64_t steps = 10;  // the number of consecutive slow steps before it is reported
  // Receives each straggler once, when it has been slow for `steps` steps; again if it was not slow
  // in between. Every member receives the same. One of them should act, such as rank 0, and replace
  // it by migrate_worker() (running_job.h). Threads: called inside the session's end_step(). It
  // must not call the session.
  std::function<void(const Straggler&)> on_straggler{};
};

// Finds members that compute slower than the others; a participant of a session's steps
// (step_participant.h). It measures the time per sample from the end of a step to this member's
// contribution to the next: its first bucket, if it calls begin_average(). Members without samples
// are ignored. Waiting for others does not count, waiting for data does. A change of the world
// restarts the count.
// Threads: one at a time, that of the session.
// Blocks: never.
// Cost: 8 bytes per member and step.
class FFDL_API StragglerWatch : public StepParticipant {
 public:
  // Creates a watch. `runtime` must outlive it. Errors: kInvalidArgument (a factor of 1 or less, no
  // steps).
  static Result<std::unique_ptr<StragglerWatch>> create(const StragglerOptions& options = {},
                                                        Runtime& runtime = system_runtime());

  // Creates a watch that also replaces a straggler of the job by another worker. The member of rank
  // 0 requests the replacement as `ffdl migrate` does, one straggler at a time. The others keep
  // training, and the job keeps its size. It needs an idle worker: fewer workers wanted than the
  // MAX of --workers MIN:MAX. Without one this is logged, and the straggler stays. It waits while
  // another change is in progress.
  // Threads: at rank 0 also one task of the runtime, which makes the requests.
  // Owns: nothing: `store` and `runtime` must outlive it.
  // Blocks: the destructor until the task's present call to the store returns.
  // Errors: those of create().
  static Result<std::unique_ptr<StragglerWatch>> create_replacing(
      Store& store, std::string_view job, const StragglerOptions& options = {},
      Runtime& runtime = system_runtime());

  // Returns the members that are slow now, in the order of ranks.
  virtual std::vector<Straggler> stragglers() const = 0;
};

}  // namespace ffdl
