#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ffdl/export.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/store.h"

// How fast one job is at each number of workers, measured in one run of it: what `ffdl profile` is
// made of. docs/launch.md
namespace ffdl {

// What was measured with so many workers.
struct ProfilePoint {
  int workers = 0;
  uint64_t batch = 0;  // samples of a step, over all workers
  uint64_t steps = 0;  // that were measured
  double step_s = 0;
  double communication_share = 0;  // as in Measurement (step_meter.h)
  double samples_per_s = 0;        // of all workers
  uint64_t host_memory_bytes = 0;  // resident, of the worker that has most

  bool operator==(const ProfilePoint&) const = default;
};

struct JobProfile {
  std::string job{};
  uint64_t global_batch = 0;           // of the first point
  std::vector<ProfilePoint> points{};  // from the most workers to the fewest

  bool operator==(const JobProfile&) const = default;
};

struct JobProfileOptions {
  std::string job = "job";
  int min_workers = 1;
  int max_workers = 1;  // with which the job runs
  uint64_t steps = 50;  // of each size, at least; those of one measurement go before them
};

// Measures a running job whose session has a StepMeter, and scales it down, one worker at a time:
// largest first, because what a worker then has to hold only grows.
// Threads: the caller's alone.
// Blocks: until the smallest size is measured, or `stop`, up to about a second longer.
// Errors: kInvalidArgument (the options), kCancelled (it was asked to stop), kNotFound (nobody runs
// the job any more; the message says what was measured), and those of scale_job() and Store.
FFDL_API Result<JobProfile> profile_job(Store& store, Runtime& runtime,
                                        const JobProfileOptions& options, const StopToken& stop);

// As JSON: {"format": "ffdl-profile-1", "job": ..., "global_batch": ..., "points": [...]}, with the
// names above. `ffdl plan --jobs` reads it.
FFDL_API std::string profile_json(const JobProfile& profile);

}  // namespace ffdl
