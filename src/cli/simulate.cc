#include "cli/simulate.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "cli/one_of.h"
#include "ffdl/cluster_simulator.h"
#include "ffdl/plan_files.h"
#include "ffdl/synthetic_workload.h"

namespace ffdl::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kUnmeasuredMax = 100'000;

struct SimulateArguments {
  std::string workload;
  std::string profiles;
  std::string throughputs;
  std::string timeline;
  SyntheticWorkload drawn;
  ClusterOptions cluster;
  bool json = false;
};

// The value below which a share of all lies; between two values, in proportion.
double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double rank = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(rank);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (rank - static_cast<double>(below)) * (values[above] - values[below]);
}

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

Json summary(const ClusterReport& report) {
  std::vector<double> completion, waiting;
  int64_t dropped = 0;
  for (const JobOutcome& job : report.jobs) {
    dropped += job.dropped_s >= 0 ? 1 : 0;
    if (job.completed_s >= 0) completion.push_back(job.completed_s - job.submitted_s);
    if (job.started_s >= 0) waiting.push_back(job.started_s - job.submitted_s);
  }
  return {{"jobs", report.jobs.size()},
          {"completed", completion.size()},
          {"dropped", dropped},
          {"mean_jct_s", mean(completion)},
          {"median_jct_s", quantile(completion, 0.5)},
          {"p99_jct_s", quantile(completion, 0.99)},
          {"mean_queueing_s", mean(waiting)},
          {"makespan_s", report.makespan_s},
          {"utilisation", report.utilisation},
          {"reallocations", report.reallocations},
          {"decisions", report.decision_ms.size()},
          {"decision_ms_median", quantile(report.decision_ms, 0.5)},
          {"decision_ms_max", quantile(report.decision_ms, 1)}};
}

std::string to_json(const ClusterReport& report) {
  Json document = summary(report);
  document["per_job"] = Json::array();
  for (const JobOutcome& job : report.jobs) {
    const auto known = [](double time) { return time < 0 ? Json(nullptr) : Json(time); };
    document["per_job"].push_back({{"job", job.name},
                                   {"application", job.application},
                                   {"submitted_s", job.submitted_s},
                                   {"started_s", known(job.started_s)},
                                   {"completed_s", known(job.completed_s)},
                                   {"dropped_s", known(job.dropped_s)},
                                   {"reallocations", job.reallocations}});
  }
  document["timeline"] = Json::array();  // [second, job, workers from then on]
  for (const AllocationChange& change : report.timeline) {
    document["timeline"].push_back({change.time_s, change.job, change.workers});
  }
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void print_table(const ClusterReport& report) {
  fmt::print("{:<24} {:>12} {:>12} {:>12} {:>14}\n", "job", "submitted s", "waited s", "took s",
             "reallocations");
  for (const JobOutcome& job : report.jobs) {
    const auto since = [&](double time) {
      return time < 0 ? std::string("-") : fmt::format("{:.0f}", time - job.submitted_s);
    };
    fmt::print("{:<24} {:>12.0f} {:>12} {:>12} {:>14}\n", job.name, job.submitted_s,
               since(job.started_s), since(job.completed_s), job.reallocations);
  }
  const Json all = summary(report);
  for (const auto& [name, value] : all.items()) fmt::print("{:<20} {}\n", name, value.dump());
}

// Shows the share that is done where somebody watches and it takes longer than a second.
std::function<void(double)> progress_bar() {
  using Clock = std::chrono::steady_clock;
  if (isatty(STDERR_FILENO) == 0) return {};
  return [next = Clock::now() + std::chrono::seconds(1)](double share) mutable {
    if (Clock::now() < next) return;
    next += std::chrono::milliseconds(200);
    constexpr int kWidth = 40;
    const auto filled = static_cast<size_t>(share * kWidth);
    fmt::print(stderr, "\r[{:<40}] {:3.0f} %", std::string(filled, '#'), 100 * share);
    if (share >= 1) fmt::print(stderr, "\n");
  };
}

// This program has no means to draw: the one of the Python package asks it for the document that
// it draws from, and draws.
Status check_timeline(const std::string& path) {
  if (path.empty() || path.ends_with(".json")) return {};
  return Status(StatusCode::kUnimplemented,
                fmt::format("draw '{}': this is the program alone, and the ffdl of the Python "
                            "package draws; install that ('pip install .' in the sources), or name "
                            "a file in .json, which holds what is drawn",
                            path));
}

Status write_timeline(const std::string& path, const ClusterReport& report) {
  if (path.empty()) return {};
  std::ofstream file(path);
  file << to_json(report) << '\n';
  file.close();
  if (file) return {};
  return Status(StatusCode::kUnavailable,
                fmt::format("write '{}': {}; name another file", path, std::strerror(errno)));
}

// What the jobs train: programs that were measured, or one that grows with its workers.
Result<std::map<std::string, ApplicationProfile>> load_programs(
    const SimulateArguments& arguments, std::span<const WorkloadJob> workload) {
  if (!arguments.profiles.empty()) return load_profiles(arguments.profiles);
  if (!arguments.throughputs.empty()) return load_throughput_profiles(arguments.throughputs);
  const bool says_lengths = !workload.empty() && std::all_of(workload.begin(), workload.end(),
                                                             [](const WorkloadJob& job) {
                                                               return job.application.empty();
                                                             });
  if (!says_lengths) {
    return Status(StatusCode::kInvalidArgument,
                  "simulate: nothing says how fast the jobs are; give --profiles or --throughputs");
  }
  const int64_t workers = int64_t{arguments.cluster.nodes} * arguments.cluster.gpus_per_node;
  if (workers > kUnmeasuredMax) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("simulate: {} workers, and nothing says how fast jobs are with so "
                              "many; give --throughputs, or at most {} workers",
                              workers, kUnmeasuredMax));
  }
  return std::map<std::string, ApplicationProfile>{
      {"any", unmeasured_program("any", static_cast<int>(workers))}};
}

Status run_simulate(const SimulateArguments& arguments) {
  FFDL_RETURN_IF_ERROR(check_timeline(arguments.timeline));
  SyntheticWorkload drawn = arguments.drawn;
  drawn.nodes = arguments.cluster.nodes;
  drawn.gpus_per_node = arguments.cluster.gpus_per_node;
  std::vector<WorkloadJob> workload;
  if (!arguments.workload.empty()) {
    FFDL_ASSIGN_OR_RETURN(workload, load_workload(arguments.workload));
  }
  FFDL_ASSIGN_OR_RETURN(const auto programs, load_programs(arguments, workload));
  if (arguments.workload.empty()) {
    FFDL_ASSIGN_OR_RETURN(workload, make_workload(programs, drawn));
  }
  FFDL_RETURN_IF_ERROR(draw_programs(workload, programs, drawn));
  FFDL_ASSIGN_OR_RETURN(const ClusterReport report,
                        simulate_cluster(workload, programs, arguments.cluster, progress_bar()));
  FFDL_RETURN_IF_ERROR(write_timeline(arguments.timeline, report));
  if (arguments.json) {
    fmt::print("{}\n", to_json(report));
  } else {
    print_table(report);
  }
  return {};
}

// Jobs from a file, or drawn.
void add_workload(CLI::App& command, SimulateArguments& to) {
  auto* source = command.add_option_group("source")->require_option(1);
  source->add_option("--workload", to.workload,
                     "jobs and when they arrive (CSV): name, time, application, num_replicas, "
                     "batch_size; or a trace: job_id, submission_time, duration, num_gpu");
  source
      ->add_option("--arrivals", to.drawn.arrivals,
                   "draw them from the programs: poisson, bursty or diurnal")
      ->transform(one_of<Arrivals>({{"poisson", Arrivals::kPoisson},
                                    {"bursty", Arrivals::kBursty},
                                    {"diurnal", Arrivals::kDiurnal}}));
  command.add_option("--jobs", to.drawn.jobs, "of --arrivals: how many")->capture_default_str();
  command
      .add_option("--load", to.drawn.load,
                  "of --arrivals: what the jobs as they ask would use of the cluster, 1: all of it")
      ->capture_default_str();
  command
      .add_option("--seed", to.drawn.seed, "of --arrivals, and of what the jobs of a trace train")
      ->capture_default_str();
}

}  // namespace

void add_simulate_command(CLI::App& app, Status& outcome) {
  const auto arguments = std::make_shared<SimulateArguments>();  // shared with the callback below
  ClusterOptions& cluster = arguments->cluster;
  CLI::App* command = app.add_subcommand("simulate", "Run a workload on a cluster in fast motion");
  add_workload(*command, *arguments);
  auto* programs =
      command->add_option_group("programs", "what the jobs train")->require_option(0, 1);
  programs->add_option("--profiles", arguments->profiles, "folder of measured profiles");
  programs->add_option("--throughputs", arguments->throughputs,
                       "folder of tables: steps per second by batch and workers. With neither, k "
                       "workers of a trace's job are k to the power of 0.8 times as fast as one");
  command->add_option("--nodes", cluster.nodes)->capture_default_str();
  command->add_option("--gpus-per-node", cluster.gpus_per_node)->capture_default_str();
  command
      ->add_option("--policy", cluster.policy,
                   "fixed, tiresias, elastic-tiresias, shortest-first or elastic")
      ->transform(one_of<ClusterPolicy>({{"fixed", ClusterPolicy::kFixed},
                                         {"tiresias", ClusterPolicy::kTiresias},
                                         {"elastic-tiresias", ClusterPolicy::kElasticTiresias},
                                         {"shortest-first", ClusterPolicy::kShortestFirst},
                                         {"elastic", ClusterPolicy::kElastic}}));
  command
      ->add_option("--objective", cluster.objective, "of the elastic policy: throughput or goodput")
      ->transform(one_of<PlanObjective>(
          {{"throughput", PlanObjective::kThroughput}, {"goodput", PlanObjective::kGoodput}}));
  command
      ->add_option("--batch", cluster.batch,
                   "of the elastic policy: dynamic, fixed (as in the workload), min or max")
      ->transform(one_of<TrainingBatch>({{"dynamic", TrainingBatch::kDynamic},
                                         {"fixed", TrainingBatch::kWorkload},
                                         {"min", TrainingBatch::kSmallest},
                                         {"max", TrainingBatch::kLargest}}));
  command->add_option("--job-workers", cluster.job_workers_max,
                      "of the elastic policy: workers of a job at most (default: all)");
  command->add_flag(
      "--plan-nodes", cluster.plans_nodes,
      "of the elastic policy: planned with the boundaries of nodes, not packed after");
  command->add_flag("--samples-alike", cluster.samples_count_alike,
                    "each sample is worth the same, whatever the batch");
  command
      ->add_option("--when-full", cluster.when_full,
                   "what becomes of a job that does not fit, of the elastic policy: queue or drop")
      ->transform(one_of<WhenFull>({{"queue", WhenFull::kQueue}, {"drop", WhenFull::kDrop}}));
  command->add_option("--interval", cluster.interval_s, "seconds between decisions")
      ->capture_default_str();
  command
      ->add_option("--restart-cost", cluster.restart_s, "seconds that a change of size stops a job")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "print one JSON document");
  command->add_option(
      "--timeline", arguments->timeline,
      "file for a picture (.png, .svg, .pdf) of the cluster and its jobs over time, "
      "which the ffdl of the Python package draws; in .json, what it is drawn from");
  command->callback([arguments, &outcome] { outcome = run_simulate(*arguments); });
}

}  // namespace ffdl::cli
