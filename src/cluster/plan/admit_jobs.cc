#include "cluster/plan/admit_jobs.h"

#include <algorithm>
#include <numeric>

#include "base/errors.h"
#include "cluster/plan/find_places.h"
#include "cluster/plan/plan_sizes.h"

namespace ffdl::cluster {
namespace {

// Returns the workers that a job needs to be admitted. A job without a size must wait: the planner
// checks that it may.
template <class Request>
int64_t smallest_of(const Request& request) {
  if (request.may_wait || request.sizes.empty()) return 0;
  return std::min_element(
             request.sizes.begin(), request.sizes.end(),
             [](const SizeOption& a, const SizeOption& b) { return a.workers < b.workers; })
      ->workers;
}

// Adds up the smallest sizes of the admitted jobs, without placement.
class LeastWorkers {
 public:
  explicit LeastWorkers(int workers) : workers_(workers) {}

  // Admits one more job if there is room.
  bool let_in(const JobRequest& request) {
    if (least_ + smallest_of(request) > workers_) return false;
    least_ += smallest_of(request);
    return true;
  }
  // Admits a job even without room.
  bool keep(const JobRequest& request) {
    least_ += smallest_of(request);
    return true;
  }
  std::string refusal(const JobRequest& request) const {
    return fmt::format("it needs {} of {} workers, and the jobs before it need at least {}",
                       smallest_of(request), workers_, least_);
  }
  int64_t least() const { return least_; }

 private:
  const int workers_;
  int64_t least_ = 0;
};

// Adds up the smallest sizes of the admitted jobs with their places.
class LeastPlaces {
 public:
  LeastPlaces(std::span<const int> nodes, int steps_max) : nodes_(nodes), steps_max_(steps_max) {}

  bool let_in(const PlacedRequest& request) {
    if (smallest_of(request) == 0) return true;
    const int size = smallest_size(request, nodes_);
    if (size < 0) return false;
    std::vector<Gang> gangs = gangs_;
    gangs.push_back(gang_of(request, request.sizes[static_cast<size_t>(size)], nodes_));
    std::vector<int> room(nodes_.begin(), nodes_.end());
    if (find_places(gangs, room, steps_max_).outcome != Places::kFound) return false;
    gangs_ = std::move(gangs);
    return true;
  }
  bool keep(const PlacedRequest& request) { return let_in(request); }
  std::string refusal(const PlacedRequest& request) const {
    if (smallest_size(request, nodes_) < 0) {
      return fmt::format(
          "it needs {} workers, and none of its sizes fits on the nodes, which have {}",
          smallest_of(request), std::accumulate(nodes_.begin(), nodes_.end(), 0));
    }
    return fmt::format("its {} workers do not fit on the nodes beside the jobs before it",
                       smallest_of(request));
  }

 private:
  const std::span<const int> nodes_;
  const int steps_max_;
  std::vector<Gang> gangs_;
};

// The jobs that share the workers.
struct Admitted {
  std::vector<bool> runs;  // each job: it was admitted, now or earlier
  std::vector<bool> fits;  // false: it was admitted earlier, and has no room now
};

// Admits jobs, first those that were admitted before. Sets the reasons of the others.
template <class Least, class Request>
Admitted admit(std::span<const Request> jobs, WhenFull when_full, Least& least,
               std::vector<JobAllocation>& allocations) {
  Admitted admitted{std::vector<bool>(jobs.size()), std::vector<bool>(jobs.size(), true)};
  for (size_t i = 0; i < jobs.size(); ++i) {
    allocations[i].name = jobs[i].name;
    if (!jobs[i].is_admitted) continue;
    admitted.runs[i] = true;
    admitted.fits[i] = least.keep(jobs[i]);
  }
  std::string blocked_by;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i].is_admitted) continue;
    if (!blocked_by.empty()) {
      allocations[i].reason = fmt::format("it waits behind {}", blocked_by);
    } else if (least.let_in(jobs[i])) {
      admitted.runs[i] = true;
    } else {
      allocations[i].reason = least.refusal(jobs[i]);
      allocations[i].is_dropped = when_full == WhenFull::kDrop;
      if (when_full == WhenFull::kQueue) blocked_by = jobs[i].name;
    }
  }
  return admitted;
}

// Keeps a job's smallest size, which is more than there is, in its present places.
void keep_least(const PlacedRequest& request, std::span<const NodeWorkers> cluster,
                JobAllocation& allocation) {
  const auto smallest = std::min_element(
      request.sizes.begin(), request.sizes.end(),
      [](const SizeOption& a, const SizeOption& b) { return a.workers < b.workers; });
  allocation.workers = smallest->workers;
  allocation.batch = smallest->batch;
  allocation.value = smallest->value;
  std::vector<Place> places;
  int left = allocation.workers;
  for (const Place& place : request.current_nodes) {
    if (left == 0) break;
    places.push_back({place.node, std::min(place.workers, left)});
    left -= places.back().workers;
  }
  allocation.nodes = named(places, cluster);
}

// Completes a plan whose jobs are known.
Plan completed(Plan plan, const Plan& shared) {
  plan.total = shared.total;
  plan.bound = shared.bound;
  plan.is_best = shared.is_best && plan.feasible;
  plan.plans_tried = shared.plans_tried;
  for (const JobAllocation& allocation : plan.jobs) plan.workers_used += allocation.workers;
  return plan;
}

}  // namespace

Result<std::optional<Plan>> admit_without_nodes(std::span<const JobRequest> jobs, int workers,
                                                WhenFull when_full) {
  if (std::any_of(jobs.begin(), jobs.end(), depends_on_nodes)) return std::optional<Plan>();
  Plan plan;
  plan.jobs.resize(jobs.size());
  LeastWorkers least(workers);
  const Admitted admitted = admit(jobs, when_full, least, plan.jobs);
  plan.feasible = least.least() <= workers;
  if (!plan.feasible) {
    plan.reason = fmt::format("the admitted jobs need at least {} workers and there are {}",
                              least.least(), workers);
  }
  std::vector<JobRequest> requests;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (admitted.runs[i]) requests.push_back(jobs[i]);
  }
  // Too few for all running jobs: the plan with exactly what they need is the one of smallest
  // sizes.
  const auto shared = static_cast<int>(std::max<int64_t>(workers, least.least()));
  FFDL_ASSIGN_OR_RETURN(std::optional<Plan> found, plan_without_nodes(requests, shared));
  Plan& planned = found.value();
  size_t next = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (!admitted.runs[i]) continue;
    plan.jobs[i] = std::move(planned.jobs[next++]);
    if (plan.feasible) continue;
    plan.jobs[i].reason =
        fmt::format("{} workers are fewer than the jobs need; it keeps its minimum", workers);
  }
  return std::optional(completed(std::move(plan), planned));
}

Result<Plan> admit_on_nodes(std::span<const PlacedRequest> jobs,
                            std::span<const NodeWorkers> cluster, const PlanOptions& options) {
  const std::vector<int> nodes = rooms_of(cluster);
  FFDL_RETURN_IF_ERROR(check_gangs(jobs, nodes));  // before the search for places
  Plan plan;
  plan.jobs.resize(jobs.size());
  LeastPlaces least(nodes, options.placements_max);
  const Admitted admitted = admit(jobs, *options.when_full, least, plan.jobs);
  std::vector<PlacedRequest> requests;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (admitted.runs[i] && admitted.fits[i]) requests.push_back(jobs[i]);
  }
  FFDL_ASSIGN_OR_RETURN(Plan planned, plan_on_nodes(requests, cluster, options));
  size_t next = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    JobAllocation& allocation = plan.jobs[i];
    if (!admitted.runs[i]) continue;
    if (admitted.fits[i] && planned.feasible) {
      allocation = std::move(planned.jobs[next++]);
      continue;
    }
    const std::string reason = admitted.fits[i] ? planned.reason : least.refusal(jobs[i]);
    if (plan.feasible) plan.reason = fmt::format("job '{}': {}", jobs[i].name, reason);
    plan.feasible = false;
    allocation.reason = reason;
    if (!jobs[i].is_admitted) continue;
    keep_least(jobs[i], cluster, allocation);
    allocation.reason += "; it keeps its minimum";
  }
  return completed(std::move(plan), planned);
}

}  // namespace ffdl::cluster

namespace ffdl {

void discount_switches(JobRequest& request, double switch_s, double horizon_s) {
  const double kept = horizon_s / (horizon_s + switch_s);
  for (SizeOption& size : request.sizes) {
    if (size.workers != request.current_workers) size.value *= kept;
  }
}

}  // namespace ffdl
