#include "ffdl/job_scheduler.h"

#include <algorithm>
#include <numeric>

#include "base/errors.h"
#include "plan/find_places.h"

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

// The smallest sizes of those that are in, wherever they lie.
class LeastWorkers {
 public:
  explicit LeastWorkers(int workers) : workers_(workers) {}

  // Whether there is room for one more, which then is in.
  bool let_in(const JobRequest& request) {
    if (least_ + smallest_of(request) > workers_) return false;
    least_ += smallest_of(request);
    return true;
  }
  // One that is in whether there is room or not.
  bool keep(const JobRequest& request) {
    least_ += smallest_of(request);
    return true;
  }
  std::string refusal(const JobRequest& request) const {
    return fmt::format("it needs {} of {} workers, and those before it need {} at least",
                       smallest_of(request), workers_, least_);
  }
  int64_t least() const { return least_; }

 private:
  const int workers_;
  int64_t least_ = 0;
};

// The same with their places.
class LeastPlaces {
 public:
  LeastPlaces(std::span<const int> nodes, int steps_max) : nodes_(nodes), steps_max_(steps_max) {}

  bool let_in(const JobRequest& request) {
    if (smallest_of(request) == 0) return true;
    const int size = plan::smallest_size(request, nodes_);
    if (size < 0) return false;
    std::vector<plan::Gang> gangs = gangs_;
    gangs.push_back(plan::gang_of(request, request.sizes[static_cast<size_t>(size)], nodes_));
    std::vector<int> room(nodes_.begin(), nodes_.end());
    if (plan::find_places(gangs, room, steps_max_).outcome != plan::Places::kFound) return false;
    gangs_ = std::move(gangs);
    return true;
  }
  bool keep(const JobRequest& request) { return let_in(request); }
  std::string refusal(const JobRequest& request) const {
    if (plan::smallest_size(request, nodes_) < 0) {
      return fmt::format("it needs {} workers, and fits in no size on the nodes, which have {}",
                         smallest_of(request), std::accumulate(nodes_.begin(), nodes_.end(), 0));
    }
    return fmt::format("its {} workers do not fit on the nodes beside those before it",
                       smallest_of(request));
  }

 private:
  const std::span<const int> nodes_;
  const int steps_max_;
  std::vector<plan::Gang> gangs_;
};

// Lets jobs in, first those that were before. False for those of them for whom there is no room.
template <class Least>
std::vector<bool> let_in(std::span<const ScheduledJob> jobs, WhenFull when_full, Least& least,
                         std::vector<ScheduledShare>& shares) {
  std::vector<bool> fits(jobs.size(), true);
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (!jobs[i].is_admitted) continue;
    shares[i].fate = JobFate::kRuns;
    fits[i] = least.keep(jobs[i].request);
  }
  std::string blocked_by;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i].is_admitted) continue;
    if (!blocked_by.empty()) {
      shares[i].reason = fmt::format("it waits behind {}", blocked_by);
    } else if (least.let_in(jobs[i].request)) {
      shares[i].fate = JobFate::kRuns;
    } else {
      shares[i].reason = least.refusal(jobs[i].request);
      if (when_full == WhenFull::kDrop) shares[i].fate = JobFate::kDropped;
      if (when_full == WhenFull::kQueue) blocked_by = jobs[i].request.name;
    }
  }
  return fits;
}

// Its smallest size, which is more than there is, where it lies.
void keep_least(const JobRequest& request, ScheduledShare& share) {
  const auto smallest = std::min_element(
      request.sizes.begin(), request.sizes.end(),
      [](const SizeOption& a, const SizeOption& b) { return a.workers < b.workers; });
  share.workers = smallest->workers;
  share.batch = smallest->batch;
  int left = share.workers;
  for (const NodeWorkers& place : request.current_nodes) {
    if (left == 0) return;
    share.nodes.push_back({place.node, std::min(place.workers, left)});
    left -= share.nodes.back().workers;
  }
}

}  // namespace

Result<Schedule> schedule_jobs(std::span<const ScheduledJob> jobs, int workers,
                               WhenFull when_full) {
  Schedule schedule;
  schedule.jobs.resize(jobs.size());
  LeastWorkers least(workers);
  let_in(jobs, when_full, least, schedule.jobs);
  schedule.feasible = least.least() <= workers;
  std::vector<JobRequest> requests;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (schedule.jobs[i].fate == JobFate::kRuns) requests.push_back(jobs[i].request);
  }
  // Too few for all who run: the plan with exactly what they need is the one of smallest sizes.
  const auto shared = static_cast<int>(std::max<int64_t>(workers, least.least()));
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

Result<Schedule> schedule_placed_jobs(std::span<const ScheduledJob> jobs,
                                      std::span<const int> nodes, WhenFull when_full,
                                      const PlacementOptions& options) {
  for (const ScheduledJob& job : jobs) {  // before places are looked for
    FFDL_RETURN_IF_ERROR(plan::check_gangs(std::span(&job.request, 1), nodes));
  }
  Schedule schedule;
  schedule.jobs.resize(jobs.size());
  LeastPlaces least(nodes, options.placements_max);
  const std::vector<bool> fits = let_in(jobs, when_full, least, schedule.jobs);
  std::vector<JobRequest> requests;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (schedule.jobs[i].fate == JobFate::kRuns && fits[i]) requests.push_back(jobs[i].request);
  }
  FFDL_ASSIGN_OR_RETURN(const PlacedPlan plan, plan_placed_jobs(requests, nodes, options));
  size_t next = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    ScheduledShare& share = schedule.jobs[i];
    if (share.fate != JobFate::kRuns) continue;
    if (fits[i] && plan.feasible) {
      const PlacedShare& planned = plan.jobs[next++];
      share = {planned.workers > 0 ? JobFate::kRuns : JobFate::kWaits, planned.workers,
               planned.batch, planned.explanation, planned.nodes};
      continue;
    }
    schedule.feasible = false;
    if (jobs[i].is_admitted) {
      keep_least(jobs[i].request, share);
      share.reason = fits[i] ? plan.reason : least.refusal(jobs[i].request);
      share.reason += "; it keeps its least";
    } else {
      share = {.reason = plan.reason};
    }
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
