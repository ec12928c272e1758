#include "ffdl/job_planner.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/errors.h"
#include "plan/choose_sizes.h"

namespace ffdl {
namespace {

using base::invalid_argument;

// Whether a request makes sense; `ordered` are its sizes by workers.
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

// The sizes in order: those of the request, or a sorted copy in `storage`.
std::span<const SizeOption> in_order(const JobRequest& job, std::vector<SizeOption>& storage) {
  if (std::is_sorted(job.sizes.begin(), job.sizes.end(), fewer_workers)) return job.sizes;
  storage = job.sizes;
  std::sort(storage.begin(), storage.end(), fewer_workers);
  return storage;
}

double cost_at(const JobRequest& job, int workers) {
  return workers == job.current_workers ? 0 : job.switch_cost;
}

void append_choices(const JobRequest& job, std::span<const SizeOption> ordered,
                    plan::Items& items) {
  if (job.may_wait) items.choices.push_back({0, -cost_at(job, 0)});
  for (const SizeOption& size : ordered) {
    items.choices.push_back({size.workers, size.value - cost_at(job, size.workers)});
  }
  items.end_item();
}

JobShare make_share(const JobRequest& job, std::span<const SizeOption> ordered, uint32_t pick) {
  JobShare share;
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

Result<Plan> plan_jobs(std::span<const JobRequest> jobs, int workers_available) {
  if (workers_available < 0) {
    return invalid_argument("plan jobs: {} workers available; give 0 or more", workers_available);
  }
  plan::Items items;
  std::vector<SizeOption> storage;
  for (const JobRequest& job : jobs) {
    const auto ordered = in_order(job, storage);
    FFDL_RETURN_IF_ERROR(check_request(job, ordered));
    append_choices(job, ordered, items);
  }
  Plan plan;
  const int64_t least = plan::least_weight(items);
  if (least > workers_available) {
    plan.feasible = false;
    plan.reason = too_few_workers(jobs.size(), least, workers_available);
    return plan;
  }
  FFDL_ASSIGN_OR_RETURN(const plan::Picks picks, plan::choose_exact(items, workers_available));
  plan.jobs.reserve(jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    plan.total += items.of(i)[picks[i]].value;
    plan.workers_used += items.of(i)[picks[i]].weight;
    plan.jobs.push_back(make_share(jobs[i], in_order(jobs[i], storage), picks[i]));
  }
  return plan;
}

std::string explain(const JobShare& share) {
  std::string text = share.workers == 0
                         ? fmt::format("{} waits", share.name)
                         : fmt::format("{} gets {} worker{}, worth {:.4g}", share.name,
                                       share.workers, share.workers == 1 ? "" : "s", share.value);
  if (share.uncertainty > 0) text += fmt::format(" +- {:.0f} %", 100 * share.uncertainty);
  if (share.larger) {
    text += fmt::format("; {} more would add {:.4g}", share.larger->workers - share.workers,
                        share.larger->value - share.value);
  } else {
    text += "; it has no larger size";
  }
  if (share.smaller) {
    text += fmt::format("; {} fewer would cost {:.4g}", share.workers - share.smaller->workers,
                        share.value - share.smaller->value);
  } else if (share.workers > 0) {
    text += "; it has no smaller size";
  }
  return text;
}

}  // namespace ffdl
