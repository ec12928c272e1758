#include "cli/simulate.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "base/resource_limit.h"
#include "cli/one_of.h"
#include "cli/print.h"
#include "cli/within.h"
#include "cluster/simulator/simulator.h"
#include "cluster/simulator/synthetic_workload.h"
#include "cluster/simulator/throughput_table.h"
#include "cluster/simulator/trace_files.h"

namespace ffdl::cli {
namespace {

using cluster::AllocationChange;
using cluster::ApplicationProfile;
using cluster::Arrivals;
using cluster::ClusterOptions;
using cluster::ClusterPolicy;
using cluster::ClusterReport;
using cluster::JobOutcome;
using cluster::PlanObjective;
using cluster::SyntheticWorkload;
using cluster::TrainingBatch;
using cluster::WorkloadJob;

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

// Returns the value below which a share of all values is; between two values, in proportion.
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
  return document.dump(-1, ' ', true, Json::error_handler_t::replace);
}

void print_table(const ClusterReport& report) {
  print("{:<24} {:>12} {:>12} {:>12} {:>14}\n", "job", "submitted s", "waited s", "took s",
        "reallocations");
  for (const JobOutcome& job : report.jobs) {
    const auto since = [&](double time) {
      return time < 0 ? std::string("-") : fmt::format("{:.0f}", time - job.submitted_s);
    };
    print("{:<24} {:>12.0f} {:>12} {:>12} {:>14}\n", job.name, job.submitted_s,
          since(job.started_s), since(job.completed_s), job.reallocations);
  }
  const Json all = summary(report);
  for (const auto& [name, value] : all.items()) print("{:<20} {}\n", name, value.dump());
}

// Shows the completed share on a terminal, if the work takes longer than a second.
std::function<void(double)> progress_bar() {
  using Clock = std::chrono::steady_clock;
  if (isatty(STDERR_FILENO) == 0) return {};
  return [next = Clock::now() + std::chrono::seconds(1)](double share) mutable {
    if (Clock::now() < next) return;
    next += std::chrono::milliseconds(200);
    constexpr int kWidth = 40;
    const auto filled = static_cast<size_t>(share * kWidth);
    print(stderr, "\r[{:<40}] {:3.0f} %", std::string(filled, '#'), 100 * share);
    if (share >= 1) print(stderr, "\n");
  };
}

// Checks the path of a picture. This program cannot draw: the one of the Python package requests
// the document of the picture, and draws.
Status check_timeline(const std::string& path) {
  if (path.empty() || path.ends_with(".json")) return {};
  return Status(
      StatusCode::kUnimplemented,
      fmt::format("draw '{}': only the ffdl command of the Python package can draw; install this "
                  "package ('pip install .' in the sources), or name a .json file",
                  path));
}

Status write_timeline(const std::string& path, const ClusterReport& report) {
  if (path.empty()) return {};
  std::ofstream file(path);
  file << to_json(report) << '\n';
  file.close();
  if (file) return {};
  return base::system_failure(fmt::format("write '{}'", path), errno, "name another file");
}

// Loads the programs of the jobs: measured ones, or one that scales with its workers.
Result<std::map<std::string, ApplicationProfile>> load_programs(
    const SimulateArguments& arguments, std::span<const WorkloadJob> workload) {
  if (!arguments.profiles.empty()) return cluster::load_profiles(arguments.profiles);
  if (!arguments.throughputs.empty())
    return cluster::load_throughput_profiles(arguments.throughputs);
  const bool says_lengths = !workload.empty() && std::all_of(workload.begin(), workload.end(),
                                                             [](const WorkloadJob& job) {
                                                               return job.application.empty();
                                                             });
  if (!says_lengths) {
    return Status(StatusCode::kInvalidArgument,
                  "simulate: the speed of the jobs is unknown; give --profiles or --throughputs");
  }
  const int64_t workers = int64_t{arguments.cluster.nodes} * arguments.cluster.gpus_per_node;
  if (workers > kUnmeasuredMax) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("simulate: the speed of a job with {} workers is unknown; give "
                              "--throughputs, or at most {} workers",
                              workers, kUnmeasuredMax));
  }
  return std::map<std::string, ApplicationProfile>{
      {"any", cluster::unmeasured_program("any", static_cast<int>(workers))}};
}

Status run_simulate(const SimulateArguments& arguments) {
  FFDL_RETURN_IF_ERROR(check_timeline(arguments.timeline));
  SyntheticWorkload drawn = arguments.drawn;
  drawn.nodes = arguments.cluster.nodes;
  drawn.gpus_per_node = arguments.cluster.gpus_per_node;
  std::vector<WorkloadJob> workload;
  if (!arguments.workload.empty()) {
    FFDL_ASSIGN_OR_RETURN(workload, cluster::load_workload(arguments.workload));
  }
  FFDL_ASSIGN_OR_RETURN(const auto programs, load_programs(arguments, workload));
  if (arguments.workload.empty()) {
    FFDL_ASSIGN_OR_RETURN(workload, cluster::make_workload(programs, drawn));
  }
  FFDL_RETURN_IF_ERROR(cluster::draw_programs(workload, programs, drawn));
  FFDL_ASSIGN_OR_RETURN(
      const ClusterReport report,
      cluster::simulate_cluster(workload, programs, arguments.cluster, progress_bar()));
  FFDL_RETURN_IF_ERROR(write_timeline(arguments.timeline, report));
  if (arguments.json) {
    print("{}\n", to_json(report));
  } else {
    print_table(report);
  }
  return {};
}

// Adds the jobs from a file, or drawn.
void add_workload(CLI::App& command, SimulateArguments& to) {
  auto* source = command.add_option_group("source")->require_option(1);
  source->add_option("--workload", to.workload,
                     "CSV file of jobs: a workload or the trace of a cluster. A workload has the "
                     "columns name, time, application, num_replicas and batch_size. A trace has "
                     "the columns job_id, submission_time, duration and num_gpu. Times are in "
                     "seconds.");
  source
      ->add_option("--arrivals", to.drawn.arrivals,
                   "Distribution of the arrival times of random jobs: poisson, bursty or diurnal. "
                   "Each job trains a random program of --profiles or --throughputs.")
      ->transform(one_of<Arrivals>({{"poisson", Arrivals::kPoisson},
                                    {"bursty", Arrivals::kBursty},
                                    {"diurnal", Arrivals::kDiurnal}}));
  command.add_option("--jobs", to.drawn.jobs, "If --arrivals is set: number of jobs")
      ->check(within(1, 1e6))
      ->capture_default_str();
  command
      .add_option("--load", to.drawn.load,
                  "If --arrivals is set: average share of the cluster that the jobs request; 1 is "
                  "the whole cluster")
      ->check(within(1e-3, 1e3))
      ->capture_default_str();
  command
      .add_option(
          "--seed", to.drawn.seed,
          "Random seed, for the jobs of --arrivals and for the random programs of a trace's jobs")
      ->check(within(0, 0x1p64))
      ->capture_default_str();
}

}  // namespace

void add_simulate_command(CLI::App& app, Status& outcome) {
  const auto arguments = std::make_shared<SimulateArguments>();  // shared with the callback below
  ClusterOptions& of_cluster = arguments->cluster;
  CLI::App* command = app.add_subcommand("simulate", "Simulate a workload's jobs on a cluster");
  add_workload(*command, *arguments);
  auto* programs =
      command->add_option_group("programs", "Programs of the jobs")->require_option(0, 1);
  programs->add_option("--profiles", arguments->profiles,
                       "Folder with one folder per program, which contains measured speeds");
  programs->add_option("--throughputs", arguments->throughputs,
                       "Folder with one CSV file per program, listing steps per second by batch "
                       "size and number of workers. If neither --profiles nor --throughputs is "
                       "set, k workers are assumed to be k^0.8 times as fast as one worker.");
  command->add_option("--nodes", of_cluster.nodes, "Number of nodes of the cluster")
      ->check(within(1, 100'000))
      ->capture_default_str();
  command->add_option("--gpus-per-node", of_cluster.gpus_per_node, "Number of workers per node")
      ->check(within(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--policy", of_cluster.policy,
                   "Scheduling policy: fixed, tiresias, elastic-tiresias, shortest-first or "
                   "elastic (default)")
      ->transform(one_of<ClusterPolicy>({{"fixed", ClusterPolicy::kFixed},
                                         {"tiresias", ClusterPolicy::kTiresias},
                                         {"elastic-tiresias", ClusterPolicy::kElasticTiresias},
                                         {"shortest-first", ClusterPolicy::kShortestFirst},
                                         {"elastic", ClusterPolicy::kElastic}}));
  command
      ->add_option("--objective", of_cluster.objective,
                   "Aim of the policy elastic: throughput, or goodput (training progress; default)")
      ->transform(one_of<PlanObjective>(
          {{"throughput", PlanObjective::kThroughput}, {"goodput", PlanObjective::kGoodput}}));
  command
      ->add_option("--batch", of_cluster.batch,
                   "Batch size if --policy is elastic: dynamic (chosen by the policy; default), "
                   "fixed (as in the workload), min (smallest measured) or max (largest measured)")
      ->transform(one_of<TrainingBatch>({{"dynamic", TrainingBatch::kDynamic},
                                         {"fixed", TrainingBatch::kWorkload},
                                         {"min", TrainingBatch::kSmallest},
                                         {"max", TrainingBatch::kLargest}}));
  command
      ->add_option("--job-workers", of_cluster.job_workers_max,
                   "If --policy is elastic: maximum number of workers per job (default: no limit)")
      ->check(within(1, kCountMax));
  command->add_flag("--plan-nodes", of_cluster.plans_nodes,
                    "If --policy is elastic: plan the sizes and the nodes of jobs together "
                    "(default: choose the nodes after the sizes)");
  command->add_flag("--samples-alike", of_cluster.samples_count_alike,
                    "Assume that a sample has the same training value at every batch size");
  command
      ->add_option("--when-full", of_cluster.when_full,
                   "If --policy is elastic and a job does not fit into the cluster: queue (the job "
                   "waits; default) or drop (the job is rejected)")
      ->transform(one_of<WhenFull>({{"queue", WhenFull::kQueue}, {"drop", WhenFull::kDrop}}));
  command->add_option("--interval", of_cluster.interval_s, "Seconds between the policy's decisions")
      ->check(within(1, kSecondsMax))
      ->capture_default_str();
  command
      ->add_option("--restart-cost", of_cluster.restart_s,
                   "Seconds that a job pauses when its number of workers changes")
      ->check(within(0, kSecondsMax))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print the result as JSON");
  command->add_option("--timeline", arguments->timeline,
                      "File for the workers of each job over time: a picture (.png, .svg or .pdf) "
                      "or data (.json). Only the ffdl command of the Python package draws "
                      "pictures.");
  command->callback([arguments, &outcome] { outcome = run_simulate(*arguments); });
}

}  // namespace ffdl::cli
