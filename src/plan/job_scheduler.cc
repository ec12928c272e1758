#include "ffdl/job_scheduler.h"

#include <algorithm>

#include "base/errors.h"

namespace ffdl {
namespace {

// What it takes to let a job in. A job without a size must wait: plan_jobs() checks that it may.
int64_t smallest_of(const JobRequest& request) {
  if (request.may_wait || request.sizes.empty()) return 0;
  return std::min_element(
             request.sizes.begin(), request.sizes.end(),
             [](const SizeOption& a, const SizeOption& b) { return a.workers < b.workers; })
      ->workers;
}

// Lets jobs in, first those that were before. Returns what the smallest sizes take together.
int64_t let_in(std::span<const ScheduledJob> jobs, int workers, WhenFull when_full,
               std::vector<ScheduledShare>& shares) {
  int64_t least = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (!jobs[i].is_admitted) continue;
    shares[i].fate = JobFate::kRuns;
    least += smallest_of(jobs[i].request);
  }
  std::string blocked_by;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i].is_admitted) continue;
    const int64_t smallest = smallest_of(jobs[i].request);
    if (!blocked_by.empty()) {
      shares[i].reason = fmt::format("it waits behind {}", blocked_by);
    } else if (least + smallest <= workers) {
      shares[i].fate = JobFate::kRuns;
      least += smallest;
    } else {
      shares[i].reason =
          fmt::format("it needs {} of {} workers, and those before it need {} at least", smallest,
                      workers, least);
      if (when_full == WhenFull::kDrop) shares[i].fate = JobFate::kDropped;
      if (when_full == WhenFull::kQueue) blocked_by = jobs[i].request.name;
    }
  }
  return least;
}

}  // namespace

Result<Schedule> schedule_jobs(std::span<const ScheduledJob> jobs, int workers,
                               WhenFull when_full) {
  Schedule schedule;
  schedule.jobs.resize(jobs.size());
  const int64_t least = let_in(jobs, workers, when_full, schedule.jobs);
  schedule.feasible = least <= workers;
  std::vector<JobRequest> requests;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (schedule.jobs[i].fate == JobFate::kRuns) requests.push_back(jobs[i].request);
  }
  // Too few for all who run: the plan with exactly what they need is the one of smallest sizes.
  const auto shared = static_cast<int>(std::max<int64_t>(workers, least));
  FFDL_ASSIGN_OR_RETURN(const Plan plan, plan_jobs(requests, shared));
  size_t next = 0;
  for (ScheduledShare& share : schedule.jobs) {
    if (share.fate != JobFate::kRuns) continue;
    const JobShare& planned = plan.jobs[next++];
    share.workers = planned.workers;
    share.batch = planned.batch;
    share.reason =
        schedule.feasible
            ? explain(planned)
            : fmt::format("{} workers are fewer than the jobs need; it keeps its least", workers);
    if (share.workers == 0) share.fate = JobFate::kWaits;
  }
  return schedule;
}

void discount_switches(JobRequest& request, double switch_s, double horizon_s) {
  const double kept = horizon_s / (horizon_s + switch_s);
  for (SizeOption& size : request.sizes) {
    if (size.workers != request.current_workers) size.value *= kept;
  }
}

}  // namespace ffdl
