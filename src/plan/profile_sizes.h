#pragma once

#include <cstdint>
#include <vector>

#include "ffdl/job_planner.h"

namespace ffdl::plan {

// What the planner takes from the file of a profile (job_profile.h): a job with so many workers, on
// one node.
struct FiledPoint {
  int workers = 0;
  int64_t batch = 0;  // of a step, over all workers
  double step_s = 0;
  double communication_share = 0;   // of step_s, that was spent waiting for others
  int64_t device_memory_bytes = 0;  // of the worker that has most; 0: not known
};

struct FiledProfile {
  int64_t batch = 0;  // that the job's owner trains with
  std::vector<FiledPoint> points{};
};

// What the planner may choose. 0: the owner's batch alone; no bound of memory; as many workers as
// were measured.
struct ProfileLimits {
  int64_t min_batch = 0;
  int64_t max_batch = 0;
  int64_t device_memory = 0;
  int max_workers = 0;
};

// What each number of workers is worth, from 1 on: the samples a second of its best batch, relative
// to one worker (to an equal part of the first that is possible, where one is not). What was
// measured counts as it was; the rest is what the scaling model predicts, with its uncertainty.
// Numbers without a batch that fits are left out.
std::vector<SizeOption> sizes_of(const FiledProfile& profile, const ProfileLimits& limits);

}  // namespace ffdl::plan
