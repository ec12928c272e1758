#include "cluster/simulator/simulator.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/errors.h"
#include "cluster/plan/limits.h"
#include "cluster/simulator/job_error.h"
#include "cluster/simulator/policies.h"
#include "cluster/simulator/sim_job.h"

namespace ffdl::cluster {
namespace {

using base::invalid_argument;

Status check_options(const ClusterOptions& options) {
  if (options.nodes < 1 || options.gpus_per_node < 1) {
    return invalid_argument("simulate a cluster: {} nodes of {} GPUs; give at least 1 of each",
                            options.nodes, options.gpus_per_node);
  }
  if (options.job_workers_max < 1) {
    return invalid_argument("simulate a cluster: job_workers_max is {}; give at least 1",
                            options.job_workers_max);
  }
  if (!(options.interval_s > 0) || !(options.restart_s >= 0) ||
      !std::isfinite(options.interval_s) || !std::isfinite(options.restart_s)) {
    return invalid_argument(
        "simulate a cluster: interval_s is {} and restart_s is {}; give an interval above 0, and a "
        "restart of 0 or more",
        options.interval_s, options.restart_s);
  }
  if (!(options.horizon_s >= 0) || !std::isfinite(options.horizon_s)) {
    return invalid_argument("simulate a cluster: a horizon of {} s; give 0 or more",
                            options.horizon_s);
  }
  return {};
}

class Simulation {
 public:
  Simulation(const ClusterOptions& options, Runtime& runtime)
      : options_(options),
        runtime_(runtime),
        rule_{options.policy == ClusterPolicy::kElastic ? options.batch : TrainingBatch::kWorkload,
              options.objective},
        policy_(make_policy(options)),
        free_(static_cast<size_t>(options.nodes), options.gpus_per_node) {}

  Status add_jobs(std::span<const WorkloadJob> workload,
                  const std::map<std::string, ApplicationProfile>& profiles) {
    for (const auto& [name, profile] : profiles) {
      ApplicationProfile used = profile;
      if (options_.samples_count_alike) {
        for (auto& [batch, epochs] : used.epochs) {
          for (EpochStatistics& epoch : epochs) epoch.grad_sqr = 0, epoch.grad_var = 1;
        }
      }
      FFDL_ASSIGN_OR_RETURN(Application application, Application::from_profile(used));
      applications_.emplace(name, std::move(application));
    }
    for (const WorkloadJob& request : workload) {
      const auto application = applications_.find(request.application);
      if (application == applications_.end()) {
        return job_error(request, request.source.application_column,
                         "there is no profile of '{}'; add one", request.application);
      }
      FFDL_RETURN_IF_ERROR(check_job(request, application->second));
      SimJob job;
      job.index = static_cast<uint32_t>(jobs_.size());
      job.request = &request;
      job.application = &application->second;
      job.estimator = &estimators_[request.application];
      if (request.duration_s > 0) {
        const auto placement = packed(request.workers, options_.gpus_per_node);
        const auto split = application->second.limits().split(request.batch, request.workers);
        job.length = job.progress_in(request.duration_s, placement, split);
      }
      FFDL_RETURN_IF_ERROR(check_arrival(request));
      last_arrival_s_ = std::max(last_arrival_s_, request.submitted_s);
      jobs_.push_back(job);
    }
    return {};
  }

  Result<ClusterReport> run(const std::function<void(double)>& progress) {
    size_t done = 0;
    for (double now_s = 0; done < jobs_.size() && now_s < last_arrival_s_ + options_.horizon_s;) {
      done = 0;
      for (SimJob& job : jobs_) {
        if (!job.over()) {
          FFDL_RETURN_IF_ERROR(advance(job, now_s, options_.interval_s, rule_));
          if (job.done()) set_allocation(job, {}, job.completed_s);
        }
        done += job.over() ? 1 : 0;
      }
      now_s += options_.interval_s;
      FFDL_RETURN_IF_ERROR(decide(now_s));
      if (progress) progress(static_cast<double>(done) / static_cast<double>(jobs_.size()));
    }
    return report();
  }

 private:
  // Checks the number of decisions: the simulation visits each, up to the horizon after the last
  // arrival.
  Status check_arrival(const WorkloadJob& request) const {
    const double decisions = (request.submitted_s + options_.horizon_s) / options_.interval_s;
    if (request.submitted_s >= 0 && decisions <= kSimulatedDecisionsMax) return {};
    return job_error(request, request.source.time_column,
                     "it arrives at {} s, and a simulation until {} s later needs {:g} decisions, "
                     "and at most {:g} are possible; give an earlier time, or a longer interval",
                     request.submitted_s, options_.horizon_s, decisions, kSimulatedDecisionsMax);
  }

  Status check_job(const WorkloadJob& request, Application& application) const {
    const WorkloadSource& source = request.source;
    const int workers_max = options_.nodes * options_.gpus_per_node;
    const auto& limits = application.limits();
    if (request.workers < 1 || request.workers > workers_max) {
      return job_error(request, source.workers_column,
                       "it asks for {} workers of {}; ask for fewer", request.workers, workers_max);
    }
    if (request.batch < limits.global_min || request.batch > limits.global_max) {
      return job_error(request, source.batch_column, "a batch of {}; its profile has {} to {}",
                       request.batch, limits.global_min, limits.global_max);
    }
    if (!std::isfinite(request.duration_s) || request.duration_s < 0) {
      return job_error(request, 0, "its duration is {} s; give 0 or more", request.duration_s);
    }
    const bool is_table = application.is_table();
    if (!is_table && request.duration_s == 0) return {};
    const auto split = limits.split(request.batch, request.workers);
    const auto placement = packed(request.workers, options_.gpus_per_node);
    if (!application.step_time(placement, std::max(split.local, limits.local_min))) {
      return job_error(request, source.workers_column,
                       "its profile has no step of batch {} on {} workers; ask for a size that was "
                       "measured",
                       request.batch, request.workers);
    }
    if (is_table && request.duration_s == 0) {
      return job_error(request, source.application_column,
                       "no table has the duration of '{}'; give the job a duration",
                       request.application);
    }
    return {};
  }

  Status decide(double now_s) {
    std::vector<SimJob*> active;
    for (SimJob& job : jobs_) {
      if (job.request->submitted_s <= now_s && !job.over()) active.push_back(&job);
    }
    if (active.empty()) return {};
    const auto before = runtime_.now();
    FFDL_ASSIGN_OR_RETURN(const Decision decision,
                          policy_->decide(active, now_s, options_.interval_s));
    const auto took = runtime_.now() - before;
    report_.decision_ms.push_back(std::chrono::duration<double, std::milli>(took).count());
    for (size_t i = 0; i < decision.dropped.size(); ++i) {
      if (decision.dropped[i]) active[i]->dropped_s = now_s;
    }
    // Every job releases before any takes.
    std::vector<bool> changes(active.size());
    for (size_t i = 0; i < active.size(); ++i) {
      changes[i] = decision.places.empty() ? decision.workers[i] != active[i]->workers()
                                           : decision.places[i] != active[i]->allocation;
      if (changes[i]) release(free_, active[i]->allocation);
    }
    for (const size_t i : decision.order) {
      if (!changes[i]) continue;
      Allocation allocation;
      bool is_free = true;
      if (!decision.places.empty()) {
        allocation = decision.places[i];
        is_free = take(free_, allocation);
      } else if (decision.workers[i] > 0) {
        allocation = place(free_, decision.workers[i], decision.rule);
        is_free = !allocation.empty();
      }
      if (!is_free) {
        return base::make_error(StatusCode::kInternal,
                                "place job '{}': {} workers were promised and are not free",
                                active[i]->request->name, decision.workers[i]);
      }
      reallocate(*active[i], allocation, options_.restart_s, rule_);
      if (active[i]->started_s < 0 && !allocation.empty()) active[i]->started_s = now_s;
      record(*active[i], now_s);
    }
    return {};
  }

  void set_allocation(SimJob& job, Allocation allocation, double now_s) {
    release(free_, job.allocation);
    job.allocation = std::move(allocation);
    record(job, now_s);
  }

  void record(const SimJob& job, double now_s) {
    report_.timeline.push_back({now_s, job.index, job.workers()});
  }

  ClusterReport report() {
    double used = 0;
    for (const SimJob& job : jobs_) {
      report_.jobs.push_back({job.request->name, job.request->submitted_s, job.started_s,
                              job.completed_s, job.dropped_s, std::max(job.reallocations, 0),
                              job.request->application});
      report_.makespan_s = std::max(report_.makespan_s, job.completed_s);
      report_.reallocations += std::max(job.reallocations, 0);
      used += job.attained_gpu_s;
    }
    const double capacity = report_.makespan_s * options_.nodes * options_.gpus_per_node;
    report_.utilisation = capacity > 0 ? used / capacity : 0;
    return std::move(report_);
  }

  const ClusterOptions options_;
  Runtime& runtime_;
  const BatchRule rule_;
  const std::unique_ptr<Policy> policy_;
  std::vector<int> free_;
  double last_arrival_s_ = 0;
  std::map<std::string, Application> applications_;
  std::map<std::string, SpeedEstimator> estimators_;  // keyed by application
  std::deque<SimJob> jobs_;
  ClusterReport report_;
};

}  // namespace

Result<ClusterReport> simulate_cluster(std::span<const WorkloadJob> workload,
                                       const std::map<std::string, ApplicationProfile>& profiles,
                                       const ClusterOptions& options,
                                       const std::function<void(double)>& progress,
                                       Runtime& runtime) {
  FFDL_RETURN_IF_ERROR(check_options(options));
  Simulation simulation(options, runtime);
  FFDL_RETURN_IF_ERROR(simulation.add_jobs(workload, profiles));
  return simulation.run(progress);
}

}  // namespace ffdl::cluster
