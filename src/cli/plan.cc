#include "cli/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/one_of.h"
#include "cli/print.h"
#include "cli/within.h"
#include "cluster/plan/job_file.h"
#include "cluster/simulator/throughput_table.h"
#include "ffdl/cluster/job_planner.h"

namespace ffdl::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PlanArguments {
  std::string jobs;
  std::string throughputs;
  int workers = -1;  // -1: the sum over the nodes
  int nodes = 0;     // 0: nodes are not given
  int gpus_per_node = 4;
  cluster::BatchChoice batch = cluster::BatchChoice::kDynamic;
  bool json = false;
};

// Returns true if the cluster has boundaries of nodes.
bool has_boundaries(std::span<const NodeWorkers> cluster) { return !cluster.front().node.empty(); }

Json to_json(const std::optional<SizeOption>& size) {
  if (!size) return nullptr;
  return {{"workers", size->workers}, {"batch", size->batch}, {"scaling", size->value}};
}

void print_json(const Plan& plan, std::span<const NodeWorkers> cluster, int workers) {
  Json document = {{"feasible", plan.feasible}};
  if (!plan.feasible) document["reason"] = plan.reason;
  document["total"] = plan.total;
  document["workers"] = workers;
  document["workers_used"] = plan.workers_used;
  document["bound"] = plan.bound;
  document["is_best"] = plan.is_best;
  document["plans_tried"] = plan.plans_tried;
  document["jobs"] = Json::array();
  for (const JobAllocation& allocation : plan.jobs) {
    Json job = {{"job", allocation.name},
                {"workers", allocation.workers},
                {"batch", allocation.batch},
                {"scaling", allocation.value}};
    if (allocation.uncertainty > 0) job["uncertainty"] = allocation.uncertainty;
    if (has_boundaries(cluster)) job["nodes"] = Json::array();
    for (const NodeWorkers& place : allocation.nodes) {
      const auto same = [&](const NodeWorkers& node) { return node.node == place.node; };
      const auto node = std::find_if(cluster.begin(), cluster.end(), same) - cluster.begin();
      job["nodes"].push_back({{"node", node}, {"workers", place.workers}});
    }
    job["smaller"] = to_json(allocation.smaller);
    job["larger"] = to_json(allocation.larger);
    job["explanation"] = explain(allocation);
    document["jobs"].push_back(std::move(job));
  }
  print_document(document.dump(2, ' ', true, Json::error_handler_t::replace) + "\n");
}

void print_explanations(const Plan& plan) {
  for (const JobAllocation& allocation : plan.jobs) print("{}\n", explain(allocation));
  print("total {:.6g}, {}\n", plan.total,
        plan.is_best
            ? "no plan is better"
            : fmt::format("another plan could have a total of at most {:.6g}", plan.bound));
}

void print_table(const Plan& plan, int workers) {
  print("{:<24} {:>8} {:>10} {:>9}  {:<22} {:<22}\n", "job", "workers", "batch", "scaling",
        "fewer would cost", "more would add");
  const auto change = [](const std::optional<SizeOption>& size, const JobAllocation& allocation) {
    if (!size) return std::string("-");
    return fmt::format("{:.4g} (at {})", std::abs(size->value - allocation.value), size->workers);
  };
  for (const JobAllocation& allocation : plan.jobs) {
    print("{:<24} {:>8} {:>10} {:>9.4g}  {:<22} {:<22}\n", allocation.name, allocation.workers,
          allocation.batch, allocation.value, change(allocation.smaller, allocation),
          change(allocation.larger, allocation));
  }
  print("total {:.6g}, {} of {} workers used\n", plan.total, plan.workers_used, workers);
}

// Returns the source of the first job whose smallest size does not fit beside those before it.
std::string first_that_does_not_fit(const std::vector<JobRequest>& jobs, int64_t workers) {
  int64_t least = 0;
  for (const JobRequest& job : jobs) {
    if (job.may_wait || job.sizes.empty()) continue;
    least += std::min_element(
                 job.sizes.begin(), job.sizes.end(),
                 [](const SizeOption& a, const SizeOption& b) { return a.workers < b.workers; })
                 ->workers;
    if (least > workers) return fmt::format("{}: job '{}' does not fit: ", job.source, job.name);
  }
  return {};
}

Status show(const Plan& plan, const PlanArguments& arguments, const std::vector<JobRequest>& jobs,
            std::span<const NodeWorkers> cluster) {
  int workers = 0;
  for (const NodeWorkers& node : cluster) workers += node.workers;
  if (arguments.json) print_json(plan, cluster, workers);
  if (!plan.feasible) {
    std::string where = first_that_does_not_fit(jobs, workers);
    if (where.empty()) {
      where =
          fmt::format("'{}': ", arguments.jobs.empty() ? arguments.throughputs : arguments.jobs);
    }
    return Status(StatusCode::kExhausted, fmt::format("plan {}{}", where, plan.reason));
  }
  if (arguments.json) return {};
  has_boundaries(cluster) ? print_explanations(plan) : print_table(plan, workers);
  return {};
}

// Checks that no job depends on nodes, as none are given.
Status check_placements(const std::vector<JobRequest>& jobs) {
  for (const JobRequest& job : jobs) {
    const auto demands = [](const SizeOption& size) {
      return size.nodes_max > 0 || size.per_node_max > 0;
    };
    if (std::none_of(job.sizes.begin(), job.sizes.end(), demands)) continue;
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format(
            "plan {}: job '{}' limits the nodes of its workers; give --nodes instead of --workers",
            job.source, job.name));
  }
  return {};
}

Status run_plan(const PlanArguments& arguments) {
  FFDL_ASSIGN_OR_RETURN(const std::vector<JobRequest> jobs,
                        arguments.jobs.empty() ? cluster::load_throughput_tables(
                                                     arguments.throughputs, arguments.batch)
                                               : cluster::load_job_requests(arguments.jobs));
  std::vector<NodeWorkers> cluster;
  for (int node = 0; node < arguments.nodes; ++node) {
    cluster.push_back({fmt::format("node {}", node), arguments.gpus_per_node});
  }
  if (cluster.empty()) {
    FFDL_RETURN_IF_ERROR(check_placements(jobs));
    cluster.push_back({"", arguments.workers});
  }
  FFDL_ASSIGN_OR_RETURN(const Plan plan, plan_jobs(jobs, cluster));
  return show(plan, arguments, jobs, cluster);
}

}  // namespace

void add_plan_command(CLI::App& app, Status& outcome) {
  const auto arguments = std::make_shared<PlanArguments>();  // shared with the callback below
  CLI::App* command =
      app.add_subcommand("plan", "Compute how many workers of a cluster each job gets");
  auto* source = command->add_option_group("source")->require_option(1);
  source->add_option("--jobs", arguments->jobs,
                     "YAML or JSON file with jobs, their sizes and the value (such as the speed) "
                     "of each size, or an output file of 'ffdl profile'");
  source->add_option(
      "--throughputs", arguments->throughputs,
      "Folder with one CSV file per job, listing steps per second by batch size and number of "
      "workers");
  auto* cluster = command->add_option_group("cluster")->require_option(1);
  cluster
      ->add_option("--workers", arguments->workers,
                   "Number of workers of the cluster, in place of --nodes; the plan then does not "
                   "assign nodes to jobs")
      ->check(within(0, kCountMax));
  cluster
      ->add_option("--nodes", arguments->nodes,
                   "Number of nodes of the cluster, in place of --workers; the plan then also "
                   "assigns nodes to jobs")
      ->check(within(1, 100'000));
  command
      ->add_option("--gpus-per-node", arguments->gpus_per_node,
                   "If --nodes is set: number of workers per node")
      ->check(within(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--batch", arguments->batch,
                   "Batch sizes that a job of --throughputs may use: dynamic (all in the job's "
                   "table; default), min (only the smallest) or max (only the largest)")
      ->transform(one_of<cluster::BatchChoice>({{"dynamic", cluster::BatchChoice::kDynamic},
                                                {"min", cluster::BatchChoice::kMin},
                                                {"max", cluster::BatchChoice::kMax}}));
  command->add_flag("--json", arguments->json, "Print the plan as JSON");
  command->callback([arguments, &outcome] { outcome = run_plan(*arguments); });
}

}  // namespace ffdl::cli
