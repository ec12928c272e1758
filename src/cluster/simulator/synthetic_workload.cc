#include "cluster/simulator/synthetic_workload.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>

#include "base/errors.h"
#include "cluster/plan/placement.h"
#include "cluster/simulator/job_error.h"
#include "cluster/simulator/sim_job.h"

namespace ffdl::cluster {
namespace {

constexpr double kHour = 3600;
constexpr double kBurst = kHour / 6;
constexpr double kShortest_s = kHour / 6;  // limit for jobs whose program has no end
constexpr double kLongest_s = 10 * kHour;

// The standard library's distributions differ between systems; its generators do not.
double uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

size_t below(std::mt19937_64& random, size_t end) { return random() % end; }

// Returns the arrival rate at a time relative to its mean.
double rate_at(Arrivals arrivals, double time_s) {
  switch (arrivals) {
    case Arrivals::kPoisson:
      break;
    case Arrivals::kBursty:
      return std::fmod(time_s, kHour) < kBurst ? kHour / kBurst : 0;
    case Arrivals::kDiurnal:
      return 1 + 0.8 * std::sin(2 * M_PI * time_s / (24 * kHour));
  }
  return 1;
}

// Returns the next arrival after `now_s`: a Poisson process of the greatest rate, thinned.
double next_arrival(Arrivals arrivals, double mean_gap_s, double now_s, std::mt19937_64& random) {
  constexpr double kRateMax = kHour / kBurst;
  while (true) {
    now_s -= mean_gap_s / kRateMax * std::log1p(-uniform(random));
    if (uniform(random) * kRateMax < rate_at(arrivals, now_s)) return now_s;
  }
}

struct Drawn {
  WorkloadJob job;
  double gpu_s = 0;  // with the workers that its owner requests
};

// Returns the seconds of all its workers until it is done; infinite if that was not measured.
double gpu_seconds(Application& application, const WorkloadJob& request, int per_node) {
  const BatchSplit split = application.limits().split(request.batch, request.workers);
  if (split.local < application.limits().local_min) return INFINITY;
  SimJob job;
  job.request = &request;
  job.application = &application;
  return job.remaining_s(packed(request.workers, per_node), split) * request.workers;
}

bool knows(Application& application, int workers, int64_t local, int per_node) {
  return application.step_time(packed(workers, per_node), local).has_value();
}

Result<Drawn> draw_of_table(Application& application, int number, const SyntheticWorkload& options,
                            std::mt19937_64& random) {
  std::vector<WorkloadJob> possible;
  for (int workers = 1; workers <= std::min(8, options.nodes * options.gpus_per_node);
       workers *= 2) {
    for (const int64_t batch : application.batches()) {
      if (!knows(application, workers, batch, options.gpus_per_node)) continue;
      possible.push_back({.name = fmt::format("{}-{}", application.name(), number),
                          .application = application.name(),
                          .workers = workers,
                          .batch = batch});
    }
  }
  if (possible.empty()) {
    return base::invalid_argument(
        "draw a workload: the table of '{}' has no batch for 1, 2, 4 or 8 workers; measure some",
        application.name());
  }
  Drawn drawn{possible[below(random, possible.size())]};
  drawn.job.duration_s = kShortest_s * std::pow(kLongest_s / kShortest_s, uniform(random));
  drawn.gpu_s = drawn.job.duration_s * drawn.job.workers;
  return drawn;
}

Result<Drawn> draw(Application& application, int number, const SyntheticWorkload& options,
                   std::mt19937_64& random) {
  if (application.is_table()) return draw_of_table(application, number, options, random);
  const BatchLimits& limits = application.limits();
  int doublings = 0;
  while (limits.global_min << (doublings + 1) <= limits.global_max) ++doublings;
  constexpr int kTries = 1000;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    Drawn drawn;
    drawn.job.name = fmt::format("{}-{}", application.name(), number);
    drawn.job.application = application.name();
    drawn.job.workers = std::min(1 << below(random, 4), options.nodes * options.gpus_per_node);
    drawn.job.batch = limits.global_min << below(random, static_cast<size_t>(doublings) + 1);
    drawn.gpu_s = gpu_seconds(application, drawn.job, options.gpus_per_node);
    if (std::isfinite(drawn.gpu_s)) return drawn;
  }
  return base::invalid_argument(
      "draw a workload: the profile of '{}' has no step time for 1 to 8 workers; measure "
      "some",
      application.name());
}

Result<std::deque<Application>> applications_of(
    const std::map<std::string, ApplicationProfile>& profiles) {
  std::deque<Application> applications;
  for (const auto& [name, profile] : profiles) {
    FFDL_ASSIGN_OR_RETURN(Application application, Application::from_profile(profile));
    applications.push_back(std::move(application));
  }
  return applications;
}

// Returns the programs and batches that a job with so many workers can train.
std::vector<WorkloadJob> choices_of(std::deque<Application>& applications, int workers,
                                    int per_node) {
  std::vector<WorkloadJob> choices;
  for (Application& application : applications) {
    const BatchLimits& limits = application.limits();
    std::vector<int64_t> batches = application.batches();
    if (!application.is_table())
      batches = {std::max(limits.global_min, limits.local_min * workers)};
    for (const int64_t batch : batches) {
      const BatchSplit split = limits.split(batch, workers);
      if (batch > limits.global_max || !knows(application, workers, split.local, per_node))
        continue;
      choices.push_back({.name = {}, .application = application.name(), .batch = batch});
    }
  }
  return choices;
}

}  // namespace

Status draw_programs(std::span<WorkloadJob> workload,
                     const std::map<std::string, ApplicationProfile>& profiles,
                     const SyntheticWorkload& options) {
  FFDL_ASSIGN_OR_RETURN(auto applications, applications_of(profiles));
  std::mt19937_64 random(options.seed);
  std::map<int, std::vector<WorkloadJob>> by_workers;
  for (WorkloadJob& job : workload) {
    if (!job.application.empty()) continue;
    const auto [entry, is_new] = by_workers.try_emplace(job.workers);
    const bool fits =
        job.workers >= 1 && job.workers <= int64_t{options.nodes} * options.gpus_per_node;
    if (is_new && fits) {
      entry->second = choices_of(applications, job.workers, options.gpus_per_node);
    }
    if (entry->second.empty()) {
      const std::string wrong =
          fits ? "no program was measured with so many"
               : fmt::format("there are {} nodes of {} GPUs", options.nodes, options.gpus_per_node);
      return job_error(job, job.source.workers_column,
                       "it has {} workers, and {}; leave it out, or give a larger cluster or "
                       "other programs",
                       job.workers, wrong);
    }
    const WorkloadJob& chosen = entry->second[below(random, entry->second.size())];
    job.application = chosen.application;
    job.batch = chosen.batch;
  }
  return {};
}

ApplicationProfile unmeasured_program(std::string name, int workers_max) {
  ApplicationProfile program;
  program.name = std::move(name);
  for (int workers = 1; workers <= workers_max; ++workers) {
    program.throughputs[1][workers] = std::pow(workers, 0.8);
  }
  return program;
}

Result<std::vector<WorkloadJob>> make_workload(
    const std::map<std::string, ApplicationProfile>& profiles, const SyntheticWorkload& options) {
  if (profiles.empty() || options.jobs < 1 || !(options.load > 0) || !std::isfinite(options.load) ||
      options.nodes < 1 || options.gpus_per_node < 1) {
    return base::invalid_argument(
        "draw a workload: {} jobs of {} programs at a load of {} on {} nodes of {} GPUs; give 1 or "
        "more of each, and a load above 0",
        options.jobs, profiles.size(), options.load, options.nodes, options.gpus_per_node);
  }
  FFDL_ASSIGN_OR_RETURN(auto applications, applications_of(profiles));
  std::mt19937_64 random(options.seed);
  std::vector<WorkloadJob> jobs;
  double gpu_s = 0;
  for (int number = 0; number < options.jobs; ++number) {
    Application& application = applications[below(random, applications.size())];
    FFDL_ASSIGN_OR_RETURN(Drawn drawn, draw(application, number, options, random));
    gpu_s += drawn.gpu_s;
    jobs.push_back(std::move(drawn.job));
  }
  const double mean_gap_s =
      gpu_s / options.jobs / (options.load * options.nodes * options.gpus_per_node);
  double now_s = 0;
  for (WorkloadJob& job : jobs) {
    now_s = next_arrival(options.arrivals, mean_gap_s, now_s, random);
    job.submitted_s = now_s;
  }
  return jobs;
}

}  // namespace ffdl::cluster
