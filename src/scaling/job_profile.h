#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ffdl/cluster/step_measurement.h"
#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/store.h"

// The speed of one job at each number of workers, measured in one run: the base of `ffdl profile`
// (docs/guide/launch.md).
namespace ffdl::scaling {

// The measurement of one number of workers.
struct ProfilePoint {
  StepMeasurement step{};
  uint64_t host_memory_bytes = 0;  // resident, of the worker with the most

  // Returns the part of a step in which a worker does not compute, 0 to 1.
  double communication_share() const { return step.step_s > 0 ? step.sync_s / step.step_s : 0; }
  bool operator==(const ProfilePoint&) const = default;
};

struct JobProfile {
  std::string job{};
  int64_t global_batch = 0;            // of the first point
  std::vector<ProfilePoint> points{};  // from the most workers to the fewest

  bool operator==(const JobProfile&) const = default;
};

struct JobProfileOptions {
  std::string job = "job";
  int min_workers = 1;
  int max_workers = 1;  // the present number of workers of the job
  uint64_t steps = 50;  // at each size, at least; those of one measurement are skipped before them
};

// Measures a running job whose session has a StepMetrics, and scales it down, one worker at a time.
// The largest size is first, because a worker's memory use then only grows.
// Threads: the caller's alone.
// Blocks: until the smallest size is measured, or `stop`, up to about a second longer.
// Errors: kInvalidArgument (the options), kCancelled (`stop` was requested), kNotFound (the job
//         runs no more; the message has the results so far), and those of scale_job() and Store.
FFDL_API Result<JobProfile> profile_job(Store& store, Runtime& runtime,
                                        const JobProfileOptions& options, const StopToken& stop);

// Returns JSON: {"format": "ffdl-profile-1", "job": ..., "global_batch": ..., "points": [...]},
// whose points have workers, batch, steps, step_s, communication_share, samples_per_s and
// host_memory_bytes. `ffdl plan --jobs` reads it.
FFDL_API std::string profile_json(const JobProfile& profile);

}  // namespace ffdl::scaling
