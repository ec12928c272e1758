#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ffdl/cluster_simulator.h"
#include "plan/application.h"
#include "plan/estimator.h"
#include "plan/placement.h"

namespace ffdl::plan {

// A job of the simulated cluster. Its fields are the truth; policies look at `estimator` and at
// what a real job reports: its epoch, its progress, its gradients.
struct SimJob {
  uint32_t index = 0;  // in the workload
  const WorkloadJob* request = nullptr;
  Application* application = nullptr;
  SpeedEstimator* estimator = nullptr;  // null: nobody wants to know

  Allocation allocation;  // empty: it waits
  BatchSplit split;
  double restart_left_s = 0;
  double progress = 0;
  double length = 0;  // the progress at its end; 0: that of its program
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

  // Progress that is left, as a job knows it that was told how many epochs to train.
  double remaining() const { return end() - progress; }
  double end() const {
    return length > 0 ? length : application->progress_after(application->epochs() - 1);
  }
  // Who trains longer than its program was measured stays in the last epoch.
  double end_of(size_t of_epoch) const {
    const bool is_last = of_epoch + 1 == application->epochs();
    return is_last ? end() : std::min(end(), application->progress_after(of_epoch));
  }

  // Seconds to the end with these workers placed like this and this batch, were nothing to change.
  double remaining_s(const std::vector<int>& placement, const BatchSplit& how) const;
  // The progress that this takes it to in `seconds`, from now; 0 where that was not measured.
  double progress_in(double seconds, const std::vector<int>& placement,
                     const BatchSplit& how) const;
};

// How the batch of a running job is chosen, anew after each epoch: from the workload, or as is
// best.
struct BatchRule {
  TrainingBatch batch = TrainingBatch::kWorkload;
  PlanObjective objective = PlanObjective::kGoodput;

  // None: it is chosen.
  std::optional<int64_t> fixed_batch(const SimJob& job) const;
  BatchQuestion question(const SimJob& job) const;
  BatchSplit choose(const SimJob& job) const;
};

// Lets a job run from `now_s` for `seconds`. Errors: kInvalidArgument (its profile does not say how
// fast).
Status advance(SimJob& job, double now_s, double seconds, const BatchRule& rule);

// Gives a job other workers; it restarts.
void reallocate(SimJob& job, Allocation allocation, double restart_s, const BatchRule& rule);

}  // namespace ffdl::plan
