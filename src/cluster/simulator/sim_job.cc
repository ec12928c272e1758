#include "cluster/simulator/sim_job.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cluster/simulator/job_error.h"

namespace ffdl::cluster {
namespace {

std::vector<int> placement_of(const Allocation& allocation) {
  std::vector<int> placement;
  for (const Place& share : allocation) placement.push_back(share.workers);
  return placement;
}

// Returns the measured time of a step; below the smallest measured local batch a step gets no
// faster.
std::optional<StepTime> true_step_time(Application& application, std::span<const int> placement,
                                       int64_t local_batch) {
  return application.step_time(placement, std::max(local_batch, application.limits().local_min));
}

struct Speed {
  StepTime time;
  GradientStatistics gradients;
  double rate = 0;  // progress a second
};

std::optional<Speed> true_speed(Application& application, std::span<const int> placement,
                                const BatchSplit& split, int workers, size_t epoch) {
  const auto time = true_step_time(application, placement, split.local);
  if (!time) return std::nullopt;
  const int64_t batch = split.global(workers);
  Speed speed{*time, application.gradients(batch, epoch), 0};
  const double scale =
      static_cast<double>(batch) / static_cast<double>(application.limits().global_min);
  speed.rate = speed.gradients.gain(scale) / time->total_s(split.accumulated);
  return speed;
}

}  // namespace

double SimJob::remaining_s(const std::vector<int>& placement, const BatchSplit& how) const {
  const int total = std::accumulate(placement.begin(), placement.end(), 0);
  double seconds = 0, from = progress;
  for (size_t at = epoch; from < end(); ++at) {
    const auto speed = true_speed(*application, placement, how, total, at);
    if (!speed) return INFINITY;
    seconds += (end_of(at) - from) / speed->rate;
    from = end_of(at);
  }
  return seconds;
}

double SimJob::progress_in(double seconds, const std::vector<int>& placement,
                           const BatchSplit& how) const {
  const int total = std::accumulate(placement.begin(), placement.end(), 0);
  double to = progress;
  for (size_t at = epoch;; ++at) {
    const auto speed = true_speed(*application, placement, how, total, at);
    if (!speed) return 0;
    const bool is_last = at + 1 == application->epochs();
    const double needs_s =
        is_last ? INFINITY : (application->progress_after(at) - to) / speed->rate;
    if (needs_s >= seconds) return to + speed->rate * seconds;
    to = application->progress_after(at);
    seconds -= needs_s;
  }
}

std::optional<int64_t> BatchRule::fixed_batch(const SimJob& job) const {
  switch (batch) {
    case TrainingBatch::kDynamic:
      return std::nullopt;
    case TrainingBatch::kWorkload:
      break;
    case TrainingBatch::kSmallest:
      return job.application->limits().global_min;
    case TrainingBatch::kLargest:
      return job.application->limits().global_max;
  }
  return job.request->batch;
}

BatchQuestion BatchRule::question(const SimJob& job) const {
  return {job.application->limits(), job.gradients, objective, fixed_batch(job)};
}

BatchSplit BatchRule::choose(const SimJob& job) const {
  const BatchLimits& limits = job.application->limits();
  if (const auto fixed = fixed_batch(job)) return limits.split(*fixed, job.workers());
  if (job.application->is_table()) {
    const auto best = job.application->best_batch(job.workers());
    return limits.split(best.value_or(limits.global_min), job.workers());
  }
  if (job.ran && job.estimator->knows_anything()) {
    const auto best =
        best_configuration(job.estimator->model(), question(job), job.nodes(), job.workers());
    if (best) return best->split;
  }
  return limits.split(std::max(limits.global_min, limits.local_min * job.workers()), job.workers());
}

Status advance(SimJob& job, double now_s, double seconds, const BatchRule& rule) {
  if (job.allocation.empty()) return {};
  const double waits = std::min(job.restart_left_s, seconds);
  job.restart_left_s -= waits;
  job.attained_gpu_s += waits * job.workers();
  now_s += waits;
  seconds -= waits;
  const std::vector<int> placement = placement_of(job.allocation);
  while (seconds > 0 && !job.done()) {
    const auto speed = true_speed(*job.application, placement, job.split, job.workers(), job.epoch);
    if (!speed) {
      return job_error(*job.request, job.request->source.workers_column,
                       "the profile of '{}' has no step time for {} workers on {} nodes with {} "
                       "samples each; ask "
                       "for a size that was measured",
                       job.application->name(), job.workers(), job.nodes(), job.split.local);
    }
    job.gradients = speed->gradients;
    job.ran = true;
    if (job.estimator != nullptr && !job.application->is_table()) {
      job.estimator->observe({.workers = job.workers(),
                              .nodes = job.nodes(),
                              .batch = job.split.local * job.workers(),
                              .step_s = speed->time.step_s,
                              .sync_s = speed->time.sync_s},
                             speed->gradients);
    }
    const double epoch_end = job.end_of(job.epoch);
    double used = seconds;
    if (job.progress + speed->rate * seconds < epoch_end) {
      job.progress += speed->rate * seconds;
    } else {
      used = std::min(seconds, std::nearbyint((epoch_end - job.progress) / speed->rate));
      job.progress = epoch_end;
      if (job.progress < job.end()) {
        ++job.epoch;
      } else {
        job.completed_s = now_s + used;
      }
    }
    now_s += used;
    seconds -= used;
    job.attained_gpu_s += used * job.workers();
    if (!job.done()) job.split = rule.choose(job);
  }
  return {};
}

void reallocate(SimJob& job, Allocation allocation, double restart_s, const BatchRule& rule) {
  job.allocation = std::move(allocation);
  if (job.allocation.empty()) return;
  job.split = rule.choose(job);
  job.restart_left_s = restart_s;
  ++job.reallocations;
}

}  // namespace ffdl::cluster
