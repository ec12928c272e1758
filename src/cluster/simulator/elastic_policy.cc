#include "cluster/simulator/elastic_policy.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cluster/plan/csv.h"

namespace ffdl::cluster {
namespace {

// Limits a program to this many times the workers that it was seen on: its model is not valid
// beyond.
constexpr int kGrowthMax = 3;

// A change of size must pay for its restart within this time, or half of the job's own remaining
// time: later the plan will have changed again.
constexpr double kHorizonMax_s = 300;

// The remaining time that is assumed for jobs without data.
constexpr double kUnknownRemaining_s = 3600;

// Returns the places of an allocation on nodes that are named by their numbers.
Allocation places_of(const JobAllocation& allocation) {
  Allocation places;
  for (const NodeWorkers& node : allocation.nodes) {
    places.push_back({static_cast<int>(*parse_integer(node.node)), node.workers});
  }
  return places;
}

}  // namespace

ElasticPolicy::ElasticPolicy(const ClusterOptions& options) : options_(options) {
  if (!options.plans_nodes) {
    nodes_ = {{"", options.nodes * options.gpus_per_node}};
    return;
  }
  for (int node = 0; node < options.nodes; ++node) {
    nodes_.push_back({std::to_string(node), options.gpus_per_node});
  }
}

int ElasticPolicy::workers_max() const {
  return std::min(options_.nodes * options_.gpus_per_node, options_.job_workers_max);
}

int ElasticPolicy::nodes_for(int workers) const {
  return (workers + options_.gpus_per_node - 1) / options_.gpus_per_node;
}

// Uses the measured times of steps, of the workload's batch, or of a table's best batch.
double ElasticPolicy::known_rate(const SimJob& job, int workers, int nodes_more) const {
  const BatchLimits& limits = job.application->limits();
  const auto fixed = job.application->is_table()
                         ? BatchRule{options_.batch, options_.objective}.fixed_batch(job)
                         : job.request->batch;
  const auto chosen = fixed ? fixed : job.application->best_batch(workers);
  const BatchSplit split = limits.split(chosen.value_or(limits.global_min), workers);
  std::vector<int> placement = packed(workers, options_.gpus_per_node);
  if (nodes_more > 0) {
    placement.back() -= 1;
    if (placement.back() == 0) return 0;
    placement.push_back(1);
  }
  const auto time = job.application->step_time(placement, split.local);
  auto worth = static_cast<double>(split.global(workers));
  if (job.application->is_table()) worth /= static_cast<double>(limits.global_min);
  return time ? worth / time->total_s(split.accumulated) : 0;
}

double ElasticPolicy::expected_rate(const SimJob& job, const BatchQuestion& question, int workers,
                                    int nodes_more) const {
  const int nodes = nodes_for(workers) + nodes_more;
  if (nodes > workers) return 0;
  const auto best = best_configuration(job.estimator->model(), question, nodes, workers);
  return best ? best->rate : 0;
}

const ElasticPolicy::Rates& ElasticPolicy::rates(const SimJob& job) {
  Rates& rates = rates_[job.index];
  const SpeedEstimator& estimator = *job.estimator;
  if (rates.version == estimator.version() && rates.gradients == job.gradients) return rates;
  rates = {estimator.version(), job.gradients, {}, {}};
  const bool is_known = options_.known_speeds || job.application->is_table();
  if (!is_known && !estimator.knows_anything()) {
    rates.of = {1.0};
    return rates;
  }
  BatchQuestion question = BatchRule{options_.batch, options_.objective}.question(job);
  if (!job.ran) question.gradients = estimator.first_gradients();
  int most = workers_max();
  // A job that asks for one worker gets no more.
  if (!is_known && job.request->workers == 1) most = 1;
  if (!is_known) most = std::min(most, kGrowthMax * estimator.model().workers_seen);
  for (int workers = 1; workers <= most; ++workers) {
    const auto rate = [&](int nodes_more) {
      return is_known ? known_rate(job, workers, nodes_more)
                      : expected_rate(job, question, workers, nodes_more);
    };
    rates.of.push_back(rate(0));
    if (options_.plans_nodes) rates.across.push_back(rate(1));
  }
  return rates;
}

JobRequest ElasticPolicy::request_for(const SimJob& job) {
  const Rates& known = this->rates(job);
  const std::vector<double>& rates = known.of;
  const bool goodput = options_.objective == PlanObjective::kGoodput;
  const int now = job.workers();
  JobRequest request;
  request.name = job.request->name;
  request.may_wait = goodput;
  request.current_workers = now;
  request.is_admitted = now > 0;
  if (options_.plans_nodes) request.current_nodes = named(job.allocation, nodes_);
  const auto first = std::find_if(rates.begin(), rates.end(), [](double rate) { return rate > 0; });
  if (first == rates.end()) {  // no size is possible with its batch
    request.may_wait = true;
    return request;
  }
  const double one_worker = *first / static_cast<double>(first - rates.begin() + 1);

  double remaining_s = kUnknownRemaining_s, horizon_s = kHorizonMax_s;
  if ((job.estimator->knows_anything() || job.application->is_table()) && goodput) {
    remaining_s = std::max(job.remaining() / one_worker, 1.0);
    const size_t size = static_cast<size_t>(std::max(now, 1)) - 1;
    const double rate = size < rates.size() && rates[size] > 0 ? rates[size] : one_worker;
    horizon_s = std::min(horizon_s, std::max(job.remaining() / rate / 2, 1.0));
  }
  const double weight = goodput ? 1 / std::sqrt(remaining_s) : 1;
  for (int workers = 1; workers <= static_cast<int>(rates.size()); ++workers) {
    const double rate = rates[static_cast<size_t>(workers) - 1];
    if (rate <= 0) continue;
    SizeOption together{workers, rate / one_worker * weight};
    // Equal if the placement does not matter.
    const double across =
        known.across.empty() ? rate : known.across[static_cast<size_t>(workers) - 1];
    if (workers > 1 && across < rate) {
      const int nodes = nodes_for(workers);
      SizeOption apart{workers, across / one_worker * weight};
      apart.nodes_max = static_cast<int16_t>(nodes + 1);
      if (across > 0) request.sizes.push_back(apart);
      together.nodes_max = static_cast<int16_t>(nodes);
    }
    request.sizes.push_back(together);
  }
  discount_switches(request, options_.restart_s, horizon_s);
  return request;
}

Result<Plan> ElasticPolicy::plan(std::span<const JobRequest> jobs, WhenFull when_full) const {
  if (!options_.plans_nodes) return plan_jobs(jobs, nodes_, {.when_full = when_full});
  // Decisions are many, and the next one comes soon: no long search for an impossible placement.
  return plan_jobs(jobs, nodes_, {.when_full = when_full, .plans_max = 20, .placements_max = 2000});
}

Result<Decision> ElasticPolicy::decide(std::span<SimJob* const> active, double, double) {
  std::vector<JobRequest> jobs;
  for (const SimJob* job : active) jobs.push_back(request_for(*job));
  FFDL_ASSIGN_OR_RETURN(Plan plan, this->plan(jobs, options_.when_full));
  if (!plan.feasible) {
    // New measurements have made the jobs' smallest sizes larger: the last jobs stop.
    for (JobRequest& job : jobs) job.is_admitted = false;
    FFDL_ASSIGN_OR_RETURN(plan, this->plan(jobs, WhenFull::kQueue));
  }
  Decision decision{std::vector<int>(active.size()), std::vector<size_t>(active.size())};
  decision.dropped.resize(active.size());
  for (size_t i = 0; i < active.size(); ++i) {
    decision.workers[i] = plan.jobs[i].workers;
    decision.dropped[i] = plan.jobs[i].is_dropped;
    if (options_.plans_nodes) decision.places.push_back(places_of(plan.jobs[i]));
  }
  // Large jobs take whole nodes first; small ones fill what is left.
  std::iota(decision.order.begin(), decision.order.end(), size_t{0});
  std::stable_sort(decision.order.begin(), decision.order.end(),
                   [&](size_t a, size_t b) { return decision.workers[a] > decision.workers[b]; });
  return decision;
}

}  // namespace ffdl::cluster
