#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <queue>
#include <utility>

#include "base/errors.h"
#include "cluster/plan/find_places.h"
#include "cluster/plan/placement.h"
#include "cluster/plan/plan_sizes.h"
#include "ffdl/cluster/job_planner.h"

namespace ffdl::cluster {
namespace {

constexpr int kWaits = -1;

// A job and one of its sizes; kWaits: none.
struct Chosen {
  size_t job = 0;
  int size = kWaits;

  bool operator==(const Chosen&) const = default;
};

// A part of all plans: those without some sizes and with some others, and the best of them as if
// nodes had no boundaries.
struct Part {
  std::vector<Chosen> without{};
  std::vector<Chosen> with{};
  std::vector<int> sizes{};  // the best plan's size of each job
  double bound = 0;
};

struct LessBound {
  bool operator()(const Part& a, const Part& b) const { return a.bound < b.bound; }
};

using Parts = std::priority_queue<Part, std::vector<Part>, LessBound>;

struct Placed {
  std::vector<int> sizes{};
  std::vector<std::vector<Place>> nodes{};
  double total = 0;
};

bool is_demanding(const SizeOption& size) { return size.nodes_max > 0 || size.per_node_max > 0; }

class Planner {
 public:
  Planner(std::span<const PlacedRequest> jobs, std::span<const NodeWorkers> cluster,
          const PlanOptions& options)
      : jobs_(jobs), cluster_(cluster), nodes_(rooms_of(cluster)), options_(options) {
    workers_ = std::accumulate(nodes_.begin(), nodes_.end(), 0);
    for (size_t job = 0; job < jobs.size(); ++job) {
      for (size_t size = 0; size < jobs[job].sizes.size(); ++size) {
        const Chosen one{job, static_cast<int>(size)};
        if (!could_fit(gang(one), nodes_)) impossible_.push_back(one);
      }
    }
  }

  Result<Plan> run() {
    FFDL_ASSIGN_OR_RETURN(const std::optional<Part> all, solve(impossible_, {}));
    if (!all) return refused(why_);
    free_sizes_ = all->sizes;
    Parts parts;
    parts.push(*all);
    double unresolved = -HUGE_VAL;
    while (!parts.empty() && !is_beaten(parts.top().bound)) {
      const Part part = parts.top();
      parts.pop();
      std::vector<size_t> order = bound_jobs(part.sizes);
      const FoundPlaces found = place(part.sizes, order);
      if (found.outcome == Places::kFound) break;  // no other part is worth more
      if (!std::exchange(has_grown_, true)) grow_from_smallest();
      place_what_fits(part.sizes, order);
      order.resize(std::min(order.size(), found.blocked));
      FFDL_ASSIGN_OR_RETURN(const bool is_whole, branch(part, order, parts));
      if (!is_whole || found.outcome == Places::kUnknown) {
        unresolved = std::max(unresolved, part.bound);
      }
      if (!is_whole) break;
    }
    return finished(parts.empty() ? -HUGE_VAL : parts.top().bound, unresolved);
  }

 private:
  // Adds the parts of a part in which one of the blocked jobs has another size than in its best
  // plan. Returns false if not all were added, as enough plans were made.
  Result<bool> branch(const Part& part, const std::vector<size_t>& blocked, Parts& parts) {
    std::vector<Chosen> with = part.with;
    for (const size_t job : blocked) {
      const Chosen one{job, part.sizes[job]};
      if (std::find(part.with.begin(), part.with.end(), one) != part.with.end()) continue;
      if (plans_ >= options_.plans_max) return false;
      std::vector<Chosen> without = part.without;
      without.push_back(one);
      FFDL_ASSIGN_OR_RETURN(const std::optional<Part> child, solve(without, with));
      if (child && !is_beaten(child->bound)) parts.push(*child);
      with.push_back(one);
    }
    return true;
  }

  const SizeOption& option(const Chosen& one) const {
    return jobs_[one.job].sizes[static_cast<size_t>(one.size)];
  }

  Gang gang(const Chosen& one) const { return gang_of(jobs_[one.job], option(one), nodes_); }

  // Returns true if the job's placement matters.
  bool is_bound(const Chosen& one) const {
    const PlacedRequest& job = jobs_[one.job];
    return is_demanding(option(one)) || !job.only_nodes.empty() ||
           (!job.may_move && !job.current_nodes.empty());
  }

  double net_value(const Chosen& one) const {
    const int workers = one.size == kWaits ? 0 : option(one).workers;
    const double value = one.size == kWaits ? 0 : option(one).value;
    return workers == jobs_[one.job].current_workers ? value : value - jobs_[one.job].switch_cost;
  }

  bool is_beaten(double bound) const {
    return best_ && bound <= best_->total + 1e-9 * (1 + std::abs(best_->total));
  }

  // Returns the best plan of a part, without boundaries; nothing if there is none.
  Result<std::optional<Part>> solve(const std::vector<Chosen>& without,
                                    const std::vector<Chosen>& with) {
    ++plans_;
    std::vector<std::vector<bool>> allowed;
    for (const PlacedRequest& job : jobs_) allowed.emplace_back(job.sizes.size(), true);
    for (const Chosen& one : without) allowed[one.job][static_cast<size_t>(one.size)] = false;
    std::vector<bool> is_forced(jobs_.size());
    for (const Chosen& one : with) {
      is_forced[one.job] = true;
      allowed[one.job].assign(allowed[one.job].size(), false);
      allowed[one.job][static_cast<size_t>(one.size)] = true;
    }
    std::vector<JobRequest> requests;
    std::vector<std::vector<int>> origins;  // indices of the requests' sizes
    for (size_t job = 0; job < jobs_.size(); ++job) {
      origins.push_back(best_of_each_number(job, allowed[job]));
      JobRequest request = {.name = jobs_[job].name,
                            .may_wait = jobs_[job].may_wait && !is_forced[job],
                            .current_workers = jobs_[job].current_workers,
                            .switch_cost = jobs_[job].switch_cost};
      for (const int size : origins.back()) {
        request.sizes.push_back(option({job, size}));
        request.sizes.back().nodes_max = request.sizes.back().per_node_max = 0;
      }
      if (request.sizes.empty() && !request.may_wait) {
        if (why_.empty())
          why_ =
              fmt::format("job '{}' does not fit on these nodes in any of its sizes", request.name);
        return std::optional<Part>();
      }
      requests.push_back(std::move(request));
    }
    FFDL_ASSIGN_OR_RETURN(const std::optional<Plan> found, plan_without_nodes(requests, workers_));
    const Plan& plan = found.value();
    if (!plan.feasible) {
      if (why_.empty()) why_ = plan.reason;
      return std::optional<Part>();
    }
    Part part{without, with, {}, plan.total};
    for (size_t job = 0; job < jobs_.size(); ++job) {
      int chosen = kWaits;
      for (const int size : origins[job]) {
        if (option({job, size}).workers == plan.jobs[job].workers) chosen = size;
      }
      part.sizes.push_back(chosen);
    }
    return std::optional(std::move(part));
  }

  // Returns the most valuable size of each number of workers; of equal ones that with the fewest
  // demands.
  std::vector<int> best_of_each_number(size_t job, const std::vector<bool>& allowed) const {
    std::vector<int> best;
    for (size_t i = 0; i < allowed.size(); ++i) {
      if (!allowed[i]) continue;
      const auto size = static_cast<int>(i);
      const SizeOption& here = option({job, size});
      const auto same = std::find_if(best.begin(), best.end(), [&](int other) {
        return option({job, other}).workers == here.workers;
      });
      if (same == best.end()) {
        best.push_back(size);
        continue;
      }
      const SizeOption& there = option({job, *same});
      const bool is_better =
          here.value > there.value ||
          (here.value == there.value && is_demanding(there) && !is_demanding(here));
      if (is_better) *same = size;
    }
    return best;
  }

  // Returns the jobs whose placement matters: those that keep places, then the largest.
  std::vector<size_t> bound_jobs(const std::vector<int>& sizes) const {
    std::vector<size_t> order;
    for (size_t job = 0; job < sizes.size(); ++job) {
      if (sizes[job] != kWaits && is_bound({job, sizes[job]})) order.push_back(job);
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      if (jobs_[a].may_move != jobs_[b].may_move) return jobs_[b].may_move;
      return option({a, sizes[a]}).workers > option({b, sizes[b]}).workers;
    });
    return order;
  }

  // Places exactly these sizes, if possible; then they are kept if they are the best so far. It
  // first tries without moving any job of unchanged size.
  FoundPlaces place(const std::vector<int>& sizes, const std::vector<size_t>& bound) {
    const std::vector<size_t> staying = jobs_that_stay(sizes);
    if (!staying.empty()) {
      std::vector<size_t> order = staying;
      std::vector<Gang> gangs;
      for (const size_t job : staying) {
        gangs.push_back(gang({job, sizes[job]}));
        gangs.back().held = jobs_[job].current_nodes;
      }
      for (const size_t job : bound) {
        if (std::find(staying.begin(), staying.end(), job) != staying.end()) continue;
        order.push_back(job);
        gangs.push_back(gang({job, sizes[job]}));
      }
      FoundPlaces found = try_gangs(sizes, order, gangs);
      if (found.outcome == Places::kFound) return found;
    }
    std::vector<Gang> gangs;
    for (const size_t job : bound) gangs.push_back(gang({job, sizes[job]}));
    return try_gangs(sizes, bound, gangs);
  }

  // Returns the jobs of unchanged size that may be moved and need not be.
  std::vector<size_t> jobs_that_stay(const std::vector<int>& sizes) const {
    std::vector<size_t> staying;
    for (size_t job = 0; job < jobs_.size(); ++job) {
      const std::vector<Place>& now = jobs_[job].current_nodes;
      if (sizes[job] == kWaits || !jobs_[job].may_move || now.empty()) continue;
      Gang here = gang({job, sizes[job]});
      here.held = now;
      const bool is_whole = workers_of(now) == here.workers;
      if (is_whole && could_fit(here, nodes_)) staying.push_back(job);
    }
    return staying;
  }

  // Places the jobs in `order`, whose gangs are `gangs`; all others go anywhere with room.
  FoundPlaces try_gangs(const std::vector<int>& sizes, const std::vector<size_t>& order,
                        const std::vector<Gang>& gangs) {
    std::vector<int> room = nodes_;
    FoundPlaces found = find_places(gangs, room, options_.placements_max);
    if (found.outcome != Places::kFound) return found;
    Placed placed{sizes, std::vector<std::vector<Place>>(jobs_.size()), 0};
    for (size_t i = 0; i < order.size(); ++i) placed.nodes[order[i]] = found.of[i];
    place_others(placed, room);
    keep(std::move(placed));
    return found;
  }

  // Places the jobs without demands, which fit into any room, the largest first.
  void place_others(Placed& placed, std::vector<int>& room) const {
    std::vector<size_t> others;
    for (size_t job = 0; job < jobs_.size(); ++job) {
      if (placed.sizes[job] != kWaits && placed.nodes[job].empty()) others.push_back(job);
    }
    std::stable_sort(others.begin(), others.end(), [&](size_t a, size_t b) {
      return option({a, placed.sizes[a]}).workers > option({b, placed.sizes[b]}).workers;
    });
    for (const size_t job : others) {
      placed.nodes[job] = fill_places(option({job, placed.sizes[job]}).workers, room);
    }
  }

  // Grows all jobs from their smallest sizes, always by the step worth most for each worker, while
  // it can be placed. The result is a feasible plan, and a good one if each node has jobs of its
  // own.
  void grow_from_smallest() {
    std::vector<int> sizes(jobs_.size(), kWaits);
    std::vector<std::vector<bool>> is_refused;
    int workers = 0;
    for (size_t job = 0; job < jobs_.size(); ++job) {
      is_refused.emplace_back(jobs_[job].sizes.size(), false);
      if (jobs_[job].may_wait) continue;
      sizes[job] = smallest_size(jobs_[job], nodes_);
      if (sizes[job] == kWaits) return;
      workers += option({job, sizes[job]}).workers;
    }
    if (workers > workers_ || place(sizes, bound_jobs(sizes)).outcome != Places::kFound) return;
    for (int refusals = 0; refusals < options_.plans_max;) {
      const Chosen step = best_step(sizes, is_refused, workers_ - workers);
      if (step.size == kWaits) return;
      std::vector<int> next = sizes;
      next[step.job] = step.size;
      if (place(next, bound_jobs(next)).outcome != Places::kFound) {
        is_refused[step.job][static_cast<size_t>(step.size)] = true;
        ++refusals;
        continue;
      }
      workers += added_workers(sizes, step);
      sizes = std::move(next);
    }
  }

  int added_workers(const std::vector<int>& sizes, const Chosen& step) const {
    const Chosen now{step.job, sizes[step.job]};
    return option(step).workers - (now.size == kWaits ? 0 : option(now).workers);
  }

  // Returns the larger size of a job that adds most for each of at most so many workers; kWaits:
  // none.
  Chosen best_step(const std::vector<int>& sizes, const std::vector<std::vector<bool>>& is_refused,
                   int workers_free) const {
    Chosen best;
    double best_gain = 0;
    for (size_t job = 0; job < jobs_.size(); ++job) {
      for (size_t size = 0; size < jobs_[job].sizes.size(); ++size) {
        const Chosen step{job, static_cast<int>(size)};
        const int more = added_workers(sizes, step);
        if (is_refused[job][size] || more < 1 || more > workers_free) continue;
        const double gain = (net_value(step) - net_value({job, sizes[job]})) / more;
        if (gain <= best_gain) continue;
        best = step;
        best_gain = gain;
      }
    }
    return best;
  }

  // Places as much of the plan as fits, one job after the other: a feasible plan.
  void place_what_fits(const std::vector<int>& sizes, const std::vector<size_t>& bound) {
    std::vector<int> room = nodes_;
    Placed placed{sizes, std::vector<std::vector<Place>>(jobs_.size()), 0};
    for (const size_t job : bound) {
      const int most = option({job, sizes[job]}).workers;
      placed.sizes[job] = kWaits;
      for (const int size : by_value(job, most)) {
        const Gang one = gang({job, size});
        std::vector<int> left = room;
        const FoundPlaces found = find_places(std::span(&one, 1), left, options_.placements_max);
        if (found.outcome != Places::kFound) continue;
        room = std::move(left);
        placed.sizes[job] = size;
        placed.nodes[job] = found.of[0];
        break;
      }
      if (placed.sizes[job] == kWaits && !jobs_[job].may_wait) return;
    }
    place_others(placed, room);
    keep(std::move(placed));
  }

  std::vector<int> by_value(size_t job, int workers_max) const {
    std::vector<int> sizes;
    for (int size = 0; size < static_cast<int>(jobs_[job].sizes.size()); ++size) {
      if (option({job, size}).workers <= workers_max) sizes.push_back(size);
    }
    std::stable_sort(sizes.begin(), sizes.end(),
                     [&](int a, int b) { return option({job, a}).value > option({job, b}).value; });
    return sizes;
  }

  void keep(Placed placed) {
    for (size_t job = 0; job < jobs_.size(); ++job) {
      placed.total += net_value({job, placed.sizes[job]});
    }
    if (!best_ || placed.total > best_->total) best_ = std::move(placed);
  }

  static Plan refused(std::string why) {
    Plan plan;
    plan.feasible = false;
    plan.reason = std::move(why);
    return plan;
  }

  Plan finished(double open, double unresolved) const {
    if (!best_) {
      Plan none = refused(
          std::max(open, unresolved) > -HUGE_VAL
              ? fmt::format(
                    "none of {} plans could be placed on the nodes; raise PlanOptions::plans_max "
                    "or placements_max",
                    plans_)
              : "the jobs' sizes do not fit on these nodes together; let some wait, or "
                "demand less");
      none.plans_tried = plans_;
      return none;
    }
    Plan plan;
    plan.total = best_->total;
    plan.bound = std::max({plan.total, open, unresolved});
    plan.is_best = is_beaten(plan.bound);
    plan.plans_tried = plans_;
    for (size_t job = 0; job < jobs_.size(); ++job) {
      plan.jobs.push_back(allocation_of(job));
      plan.workers_used += plan.jobs.back().workers;
    }
    return plan;
  }

  JobAllocation allocation_of(size_t job) const {
    JobAllocation allocation{.name = jobs_[job].name};
    const Chosen chosen{job, best_->sizes[job]};
    if (chosen.size != kWaits) {
      const SizeOption& size = option(chosen);
      allocation.workers = size.workers;
      allocation.batch = size.batch;
      allocation.value = size.value;
      allocation.uncertainty = size.uncertainty;
      std::vector<Place> places = best_->nodes[job];
      std::sort(places.begin(), places.end(),
                [](const Place& a, const Place& b) { return a.node < b.node; });
      allocation.nodes = named(places, cluster_);
    }
    add_neighbours(job, allocation);
    const Chosen free{job, free_sizes_[job]};
    const bool differs = free.size == kWaits
                             ? chosen.size != kWaits
                             : chosen.size == kWaits || option(free).value != option(chosen).value;
    if (differs) {
      allocation.without_boundaries = free.size == kWaits ? SizeOption{} : option(free);
    }
    return allocation;
  }

  // Adds the next smaller and larger sizes.
  void add_neighbours(size_t job, JobAllocation& allocation) const {
    const PlacedRequest& request = jobs_[job];
    if (request.may_wait && allocation.workers > 0) allocation.smaller = SizeOption{};
    for (const int size : best_of_each_number(job, std::vector(request.sizes.size(), true))) {
      const SizeOption& other = option({job, size});
      if (other.workers < allocation.workers &&
          (!allocation.smaller || other.workers > allocation.smaller->workers)) {
        allocation.smaller = other;
      }
      if (other.workers > allocation.workers &&
          (!allocation.larger || other.workers < allocation.larger->workers)) {
        allocation.larger = other;
      }
    }
  }

  const std::span<const PlacedRequest> jobs_;
  const std::span<const NodeWorkers> cluster_;
  const std::vector<int> nodes_;
  const PlanOptions options_;
  int workers_ = 0;
  std::vector<Chosen> impossible_;
  int plans_ = 0;
  bool has_grown_ = false;       // grow_from_smallest() has run
  std::string why_;              // the first thing that made a part impossible
  std::vector<int> free_sizes_;  // sizes in the best plan without boundaries
  std::optional<Placed> best_;
};

}  // namespace

Result<Plan> plan_on_nodes(std::span<const PlacedRequest> jobs,
                           std::span<const NodeWorkers> cluster, const PlanOptions& options) {
  FFDL_RETURN_IF_ERROR(check_gangs(jobs, rooms_of(cluster)));
  return Planner(jobs, cluster, options).run();
}

}  // namespace ffdl::cluster
