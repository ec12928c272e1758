#include "plan/elastic_policy.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ffdl::plan {
namespace {

// A program is tried on at most this many times the workers that it was ever seen on: its model
// knows nothing of what is beyond.
constexpr int kGrowthMax = 3;

// A change of size pays for its restart within this time, or half of the job's own remaining time:
// later the plan will have changed again.
constexpr double kHorizonMax_s = 300;

// Taken for jobs of which nothing is known yet.
constexpr double kUnknownRemaining_s = 3600;

}  // namespace

int ElasticPolicy::workers_max() const {
  return std::min(options_.nodes * options_.gpus_per_node, options_.job_workers_max);
}

// By the measured times of steps, of the batch of the workload; or of a table's best.
std::vector<double> ElasticPolicy::known_rates(const SimJob& job) const {
  const BatchLimits& limits = job.application->limits();
  const auto fixed = job.application->is_table()
                         ? BatchRule{options_.batch, options_.objective}.fixed_batch(job)
                         : job.request->batch;
  std::vector<double> rates;
  for (int workers = 1; workers <= workers_max(); ++workers) {
    const auto chosen = fixed ? fixed : job.application->best_batch(workers);
    const BatchSplit split = limits.split(chosen.value_or(limits.global_min), workers);
    const auto placement = packed(workers, options_.gpus_per_node);
    const auto time = job.application->step_time(placement, split.local);
    auto worth = static_cast<double>(split.global(workers));
    if (job.application->is_table()) worth /= static_cast<double>(limits.global_min);
    rates.push_back(time ? worth / time->total_s(split.accumulated) : 0);
  }
  return rates;
}

const std::vector<double>& ElasticPolicy::rates(const SimJob& job) {
  Rates& rates = rates_[job.index];
  const SpeedEstimator& estimator = *job.estimator;
  if (rates.version == estimator.version() && rates.gradients == job.gradients) return rates.of;
  rates.version = estimator.version();
  rates.gradients = job.gradients;
  if (options_.known_speeds || job.application->is_table()) {
    rates.of = known_rates(job);
    return rates.of;
  }
  rates.of = {1.0};
  if (!estimator.knows_anything()) return rates.of;
  BatchQuestion question = BatchRule{options_.batch, options_.objective}.question(job);
  if (!job.ran) question.gradients = estimator.first_gradients();
  // Who asks for one worker only is taken at his word.
  const int most = job.request->workers == 1
                       ? 1
                       : std::min(workers_max(), kGrowthMax * estimator.model().workers_seen);
  rates.of.clear();
  for (int workers = 1; workers <= most; ++workers) {
    const int nodes = (workers + options_.gpus_per_node - 1) / options_.gpus_per_node;
    const auto best = best_configuration(estimator.model(), question, nodes, workers);
    rates.of.push_back(best ? best->rate : 0);
  }
  return rates.of;
}

JobRequest ElasticPolicy::request_for(const SimJob& job) {
  const std::vector<double>& rates = this->rates(job);
  const bool goodput = options_.objective == PlanObjective::kGoodput;
  const int now = job.workers();
  JobRequest request;
  request.name = job.request->name;
  request.may_wait = goodput;
  request.current_workers = now;
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
    if (rate > 0) request.sizes.push_back({workers, rate / one_worker * weight});
  }
  discount_switches(request, options_.restart_s, horizon_s);
  return request;
}

Result<Decision> ElasticPolicy::decide(std::span<SimJob* const> active, double, double) {
  const int gpus = options_.nodes * options_.gpus_per_node;
  std::vector<ScheduledJob> jobs;
  for (const SimJob* job : active) jobs.push_back({request_for(*job), job->workers() > 0});
  FFDL_ASSIGN_OR_RETURN(Schedule schedule, schedule_jobs(jobs, gpus, options_.when_full));
  if (!schedule.feasible) {
    // What was learned meanwhile made the jobs' smallest sizes larger: the last ones stop.
    for (ScheduledJob& job : jobs) job.is_admitted = false;
    FFDL_ASSIGN_OR_RETURN(schedule, schedule_jobs(jobs, gpus, WhenFull::kQueue));
  }
  Decision decision{std::vector<int>(active.size()), std::vector<size_t>(active.size())};
  decision.dropped.resize(active.size());
  for (size_t i = 0; i < active.size(); ++i) {
    decision.workers[i] = schedule.jobs[i].workers;
    decision.dropped[i] = schedule.jobs[i].fate == JobFate::kDropped;
  }
  // Large jobs take whole nodes first; small ones fill what is left.
  std::iota(decision.order.begin(), decision.order.end(), size_t{0});
  std::stable_sort(decision.order.begin(), decision.order.end(),
                   [&](size_t a, size_t b) { return decision.workers[a] > decision.workers[b]; });
  return decision;
}

}  // namespace ffdl::plan
