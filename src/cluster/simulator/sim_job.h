#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cluster/plan/placement.h"
#include "cluster/simulator/application.h"
#include "cluster/simulator/estimator.h"
#include "cluster/simulator/simulator.h"

namespace ffdl::cluster {

// A job of the simulated cluster. Its fields are the ground truth; policies read `estimator` and
// the reports of a real job: its epoch, its progress, its gradients.
struct SimJob {
  uint32_t index = 0;  // index in the workload
  const WorkloadJob* request = nullptr;
  Application* application = nullptr;
  SpeedEstimator* estimator = nullptr;  // null: not used

  Allocation allocation;  // empty: it waits
  BatchSplit split;
  double restart_left_s = 0;
  double progress = 0;
  double length = 0;  // the progress at its end; 0: its program's
  size_t epoch = 0;
  double attained_gpu_s = 0;
  GradientStatistics gradients;  // last seen
  bool ran = false;

  double started_s = -1;
  double completed_s = -1;
  double dropped_s = -1;
  int reallocations = -1;  // the first allocation is none

  int workers() const { return workers_of(allocation); }
  int nodes() const { return static_cast<int>(allocation.size()); }
  bool done() const { return completed_s >= 0; }
  bool over() const { return done() || dropped_s >= 0; }

  // Returns the remaining progress, as a job with a given number of epochs knows it.
  double remaining() const { return end() - progress; }
  double end() const {
    return length > 0 ? length : application->progress_after(application->epochs() - 1);
  }
  // Returns the progress at the end of an epoch. A job that trains longer than its program was
  // measured stays in the last epoch.
  double end_of(size_t of_epoch) const {
    const bool is_last = of_epoch + 1 == application->epochs();
    return is_last ? end() : std::min(end(), application->progress_after(of_epoch));
  }

  // Returns the seconds to the end with this placement and batch, without further changes.
  double remaining_s(const std::vector<int>& placement, const BatchSplit& how) const;
  // Returns the progress after `seconds` from now; 0 if that was not measured.
  double progress_in(double seconds, const std::vector<int>& placement,
                     const BatchSplit& how) const;
};

// The rule for the batch of a running job, chosen again after each epoch: that of the workload, or
// the best.
struct BatchRule {
  TrainingBatch batch = TrainingBatch::kWorkload;
  PlanObjective objective = PlanObjective::kGoodput;

  // Returns the fixed batch; none: it is chosen.
  std::optional<int64_t> fixed_batch(const SimJob& job) const;
  BatchQuestion question(const SimJob& job) const;
  BatchSplit choose(const SimJob& job) const;
};

// Runs a job from `now_s` for `seconds`. Errors: kInvalidArgument (its profile has no step time).
Status advance(SimJob& job, double now_s, double seconds, const BatchRule& rule);

// Reallocates a job; it restarts.
void reallocate(SimJob& job, Allocation allocation, double restart_s, const BatchRule& rule);

}  // namespace ffdl::cluster
