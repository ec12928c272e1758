#include "jobs/decide_allocations.h"

#include <algorithm>

#include "ffdl/job_scheduler.h"
#include "jobs/learn_sizes.h"

namespace ffdl::jobs {
namespace {

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// There is nothing to be decided: it was turned away, or cannot be asked what it needs.
bool is_decided(const JobFacts& job) {
  return job.is_away || (job.answer && job.answer->is_dropped);
}

// Whether it was told a size that it has not come to yet: it may start workers at any time.
bool is_growing(const JobFacts& job) {
  return job.granted() > 0 && (job.is_starting || job.wanted < job.granted());
}

ScheduledJob to_be_scheduled(const JobFacts& job, const AutoscalerOptions& options) {
  ScheduledJob scheduled{{.name = job.demand.job,
                          .sizes = learn_sizes(job.demand.sizes, job.speeds),
                          .current_workers = job.granted()},
                         job.granted() > 0};
  discount_switches(scheduled.request, seconds(options.switch_cost), seconds(options.horizon));
  return scheduled;
}

// What is best, if all could have it at once.
Result<std::vector<JobAllocation>> best_allocations(const Snapshot& snapshot,
                                                    const AutoscalerOptions& options) {
  std::vector<ScheduledJob> scheduled;
  int workers = snapshot.workers;
  for (const JobFacts& job : snapshot.jobs) {
    if (!is_decided(job)) scheduled.push_back(to_be_scheduled(job, options));
    if (job.is_away) workers -= std::max(job.running, job.wanted);
  }
  FFDL_ASSIGN_OR_RETURN(const Schedule schedule,
                        schedule_jobs(scheduled, std::max(workers, 0), options.when_full));
  std::vector<JobAllocation> best;
  size_t next = 0;
  for (const JobFacts& job : snapshot.jobs) {
    if (is_decided(job)) {
      best.push_back(*job.answer);
      continue;
    }
    const ScheduledShare& share = schedule.jobs[next++];
    best.push_back({job.demand.job, share.workers, share.batch, share.fate == JobFate::kDropped,
                    share.reason});
  }
  return best;
}

}  // namespace

Result<AllocationDecision> decide_allocations(const Snapshot& snapshot,
                                              const AutoscalerOptions& options) {
  AllocationDecision decision;
  FFDL_ASSIGN_OR_RETURN(decision.jobs, best_allocations(snapshot, options));
  int free = snapshot.workers;
  for (size_t i = 0; i < snapshot.jobs.size(); ++i) {
    const JobFacts& job = snapshot.jobs[i];
    JobAllocation& allocation = decision.jobs[i];
    if (allocation.workers < job.granted() && is_growing(job)) {
      allocation = *job.answer;
      decision.is_settled = false;
    }
    // Until its processes have ended a job has what it had.
    free -= std::max({job.running, job.wanted, std::min(job.granted(), allocation.workers)});
  }
  for (size_t i = 0; i < snapshot.jobs.size(); ++i) {
    const JobFacts& job = snapshot.jobs[i];
    JobAllocation& allocation = decision.jobs[i];
    if (allocation.workers <= job.granted()) continue;
    const int has = std::max({job.running, job.wanted, job.granted()});
    const int more = std::max(allocation.workers - has, 0);
    if (more <= free) {
      free -= more;
      continue;
    }
    decision.is_settled = false;
    allocation = job.answer.value_or(JobAllocation{});
    allocation.job = job.demand.job;
    if (!job.answer) allocation.reason = "others are about to make room for it";
  }
  return decision;
}

}  // namespace ffdl::jobs
