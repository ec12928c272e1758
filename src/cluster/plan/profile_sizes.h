#pragma once

#include <cstdint>
#include <vector>

#include "cluster/plan/scaling_model.h"
#include "ffdl/cluster/job_planner.h"

namespace ffdl::cluster {

// A point of the file of a profile (`ffdl profile`): a job with so many workers, on one node.
struct FiledPoint {
  StepMeasurement step{};
  int64_t device_memory_bytes = 0;  // the largest of any worker; 0: not known
};

struct FiledProfile {
  int64_t batch = 0;  // the owner's batch
  std::vector<FiledPoint> points{};
};

// Limits the planner's choice. 0: the owner's batch alone; no bound of memory; as many workers as
// were measured.
struct ProfileLimits {
  int64_t min_batch = 0;
  int64_t max_batch = 0;
  int64_t device_memory = 0;
  int max_workers = 0;
};

// Returns the value of each number of workers, from 1 on: the samples a second of its best batch.
// Values are relative to one worker, or to an equal part of the first possible number. Measured
// speeds count as measured; the rest is predicted by the scaling model, with its uncertainty.
// Numbers without a batch that fits are left out.
std::vector<SizeOption> sizes_of(const FiledProfile& profile, const ProfileLimits& limits);

}  // namespace ffdl::cluster
