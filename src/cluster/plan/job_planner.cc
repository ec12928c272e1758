#include "ffdl/cluster/job_planner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "cluster/plan/admit_jobs.h"
#include "cluster/plan/choose_sizes.h"
#include "cluster/plan/placed_request.h"
#include "cluster/plan/plan_sizes.h"

namespace ffdl {
namespace cluster {
namespace {

using base::invalid_argument;

// Checks a request; `ordered` are its sizes by workers.
Status check_request(const JobRequest& job, std::span<const SizeOption> ordered) {
  if (ordered.empty() && !job.may_wait) {
    return invalid_argument("plan job '{}': it has no size; give at least one, or let it wait",
                            job.name);
  }
  if (ordered.size() >= std::numeric_limits<uint16_t>::max()) {
    return invalid_argument("plan job '{}': {} sizes; at most 65534 are possible", job.name,
                            ordered.size());
  }
  if (!std::isfinite(job.switch_cost) || job.switch_cost < 0) {
    return invalid_argument("plan job '{}': a switch cost of {}; give 0 or more", job.name,
                            job.switch_cost);
  }
  int previous = 0;
  for (const SizeOption& size : ordered) {
    if (size.workers < 1) {
      return invalid_argument("plan job '{}': a size of {} workers; the least is 1", job.name,
                              size.workers);
    }
    if (size.workers == previous) {
      return invalid_argument("plan job '{}': {} workers are listed twice; list each size once",
                              job.name, size.workers);
    }
    if (!std::isfinite(size.value)) {
      return invalid_argument("plan job '{}': {} workers are worth {}; leave impossible sizes out",
                              job.name, size.workers, size.value);
    }
    previous = size.workers;
  }
  return {};
}

bool fewer_workers(const SizeOption& a, const SizeOption& b) { return a.workers < b.workers; }

// Returns the sizes in order: those of the request, or a sorted copy in `storage`.
std::span<const SizeOption> in_order(const JobRequest& job, std::vector<SizeOption>& storage) {
  if (std::is_sorted(job.sizes.begin(), job.sizes.end(), fewer_workers)) return job.sizes;
  storage = job.sizes;
  std::sort(storage.begin(), storage.end(), fewer_workers);
  return storage;
}

double cost_at(const JobRequest& job, int workers) {
  return workers == job.current_workers ? 0 : job.switch_cost;
}

void append_choices(const JobRequest& job, std::span<const SizeOption> ordered, Items& items) {
  if (job.may_wait) items.choices.push_back({0, -cost_at(job, 0)});
  for (const SizeOption& size : ordered) {
    items.choices.push_back({size.workers, size.value - cost_at(job, size.workers)});
  }
  items.end_item();
}

JobAllocation make_allocation(const JobRequest& job, std::span<const SizeOption> ordered,
                              uint32_t pick) {
  JobAllocation share;
  share.name = job.name;
  const size_t waiting = job.may_wait ? 1 : 0;  // the position of the first size
  if (pick >= waiting) {
    const SizeOption& size = ordered[pick - waiting];
    share.workers = size.workers;
    share.batch = size.batch;
    share.value = size.value;
    share.uncertainty = size.uncertainty;
  }
  if (pick > waiting) share.smaller = ordered[pick - waiting - 1];
  if (pick == waiting && waiting == 1) share.smaller = SizeOption{};
  const size_t next = pick + 1 - waiting;
  if (next < ordered.size()) share.larger = ordered[next];
  return share;
}

std::string too_few_workers(size_t jobs, int64_t least, int available) {
  return fmt::format(
      "{} jobs need at least {} workers together and there are {}; plan fewer jobs or "
      "let some wait",
      jobs, least, available);
}

}  // namespace

bool depends_on_nodes(const JobRequest& job) {
  return !job.only_nodes.empty() || !job.current_nodes.empty() ||
         std::any_of(job.sizes.begin(), job.sizes.end(), [](const SizeOption& size) {
           return size.nodes_max != 0 || size.per_node_max != 0;
         });
}

Result<std::optional<Plan>> plan_without_nodes(std::span<const JobRequest> jobs,
                                               int workers_available) {
  Items items;
  std::vector<SizeOption> storage;
  for (const JobRequest& job : jobs) {
    if (depends_on_nodes(job)) return std::optional<Plan>();
    const auto ordered = in_order(job, storage);
    FFDL_RETURN_IF_ERROR(check_request(job, ordered));
    append_choices(job, ordered, items);
  }
  Plan plan;
  plan.is_best = true;
  plan.plans_tried = 1;
  const int64_t least = least_weight(items);
  if (least > workers_available) {
    plan.feasible = false;
    plan.is_best = false;
    plan.reason = too_few_workers(jobs.size(), least, workers_available);
    return std::optional(std::move(plan));
  }
  FFDL_ASSIGN_OR_RETURN(const Picks picks, choose_exact(items, workers_available));
  plan.jobs.reserve(jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    plan.total += items.of(i)[picks[i]].value;
    plan.workers_used += items.of(i)[picks[i]].weight;
    plan.jobs.push_back(make_allocation(jobs[i], in_order(jobs[i], storage), picks[i]));
  }
  plan.bound = plan.total;
  return std::optional(std::move(plan));
}

}  // namespace cluster

namespace {

Status check_options(const PlanOptions& options) {
  if (options.plans_max >= 1 && options.placements_max >= 1) return {};
  return base::invalid_argument(
      "plan jobs: plans_max is {} and placements_max is {}; give at least 1 for both",
      options.plans_max, options.placements_max);
}

// Plans for one node. None: a request depends on nodes.
Result<std::optional<Plan>> plan_one_node(std::span<const JobRequest> requests,
                                          const NodeWorkers& node, const PlanOptions& options) {
  if (node.workers < 0) {
    return base::invalid_argument("plan jobs: {} workers available; give 0 or more", node.workers);
  }
  auto plan = options.when_full
                  ? cluster::admit_without_nodes(requests, node.workers, *options.when_full)
                  : cluster::plan_without_nodes(requests, node.workers);
  if (!plan.ok() || !*plan || node.node.empty()) return plan;
  for (JobAllocation& allocation : (*plan)->jobs) {
    if (allocation.workers > 0) allocation.nodes = {{node.node, allocation.workers}};
  }
  return plan;
}

}  // namespace

Result<Plan> plan_jobs(std::span<const JobRequest> requests, std::span<const NodeWorkers> cluster,
                       const PlanOptions& options) {
  FFDL_RETURN_IF_ERROR(check_options(options));
  if (cluster.size() <= 1) {
    const NodeWorkers node = cluster.empty() ? NodeWorkers{} : cluster[0];
    FFDL_ASSIGN_OR_RETURN(std::optional<Plan> plan, plan_one_node(requests, node, options));
    if (plan) return *std::move(plan);
  }
  FFDL_ASSIGN_OR_RETURN(const auto placed, cluster::to_placed(requests, cluster));
  return options.when_full ? cluster::admit_on_nodes(placed, cluster, options)
                           : cluster::plan_on_nodes(placed, cluster, options);
}

std::string explain(const JobAllocation& allocation) {
  if (!allocation.reason.empty()) return allocation.reason;
  std::string text =
      allocation.workers == 0
          ? fmt::format("{} waits", allocation.name)
          : fmt::format("{} gets {} worker{}, worth {:.4g}", allocation.name, allocation.workers,
                        allocation.workers == 1 ? "" : "s", allocation.value);
  if (allocation.uncertainty > 0) text += fmt::format(" +- {:.0f} %", 100 * allocation.uncertainty);
  if (allocation.larger) {
    text +=
        fmt::format("; {} more would add {:.4g}", allocation.larger->workers - allocation.workers,
                    allocation.larger->value - allocation.value);
  } else {
    text += "; it has no larger size";
  }
  if (allocation.smaller) {
    text += fmt::format("; {} fewer would cost {:.4g}",
                        allocation.workers - allocation.smaller->workers,
                        allocation.value - allocation.smaller->value);
  } else if (allocation.workers > 0) {
    text += "; it has no smaller size";
  }
  for (const NodeWorkers& place : allocation.nodes) {
    text += fmt::format("{} {} on {}", &place == allocation.nodes.data() ? ";" : ",", place.workers,
                        place.node);
  }
  if (allocation.without_boundaries) {
    text += allocation.without_boundaries->workers == 0
                ? "; it would wait if nodes had no boundaries"
                : fmt::format("; if nodes had no boundaries it would have {}, worth {:.4g}",
                              allocation.without_boundaries->workers,
                              allocation.without_boundaries->value);
  }
  return text;
}

}  // namespace ffdl
