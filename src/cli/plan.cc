#include "cli/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/one_of.h"
#include "ffdl/job_planner.h"
#include "ffdl/placed_plan.h"
#include "ffdl/plan_files.h"

namespace ffdl::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PlanArguments {
  std::string jobs;
  std::string throughputs;
  int workers = -1;  // -1: by the nodes
  int nodes = 0;     // 0: nothing is said of nodes
  int gpus_per_node = 4;
  BatchChoice batch = BatchChoice::kDynamic;
  bool json = false;
};

Json to_json(const std::optional<SizeOption>& size) {
  if (!size) return nullptr;
  return {{"workers", size->workers}, {"batch", size->batch}, {"scaling", size->value}};
}

void print(const Json& document) {
  fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
}

// Of both kinds of plan.
template <class Plan>
Json summary(const Plan& plan, int workers) {
  Json document = {{"feasible", plan.feasible}};
  if (!plan.feasible) document["reason"] = plan.reason;
  document["total"] = plan.total;
  document["workers"] = workers;
  int64_t used = 0;
  for (const auto& share : plan.jobs) used += share.workers;
  document["workers_used"] = used;
  return document;
}

template <class Share>
Json share_to_json(const Share& share) {
  Json job = {{"job", share.name},
              {"workers", share.workers},
              {"batch", share.batch},
              {"scaling", share.value}};
  if (share.uncertainty > 0) job["uncertainty"] = share.uncertainty;
  return job;
}

void print_json(const Plan& plan, int workers) {
  Json document = summary(plan, workers);
  document["jobs"] = Json::array();
  for (const JobShare& share : plan.jobs) {
    Json job = share_to_json(share);
    job["smaller"] = to_json(share.smaller);
    job["larger"] = to_json(share.larger);
    job["explanation"] = explain(share);
    document["jobs"].push_back(std::move(job));
  }
  print(document);
}

void print_json(const PlacedPlan& plan, int workers) {
  Json document = summary(plan, workers);
  document["bound"] = plan.bound;
  document["is_best"] = plan.is_best;
  document["plans_tried"] = plan.plans_tried;
  document["jobs"] = Json::array();
  for (const PlacedShare& share : plan.jobs) {
    Json job = share_to_json(share);
    job["nodes"] = Json::array();
    for (const NodeWorkers& place : share.nodes) {
      job["nodes"].push_back({{"node", place.node}, {"workers", place.workers}});
    }
    job["explanation"] = share.explanation;
    document["jobs"].push_back(std::move(job));
  }
  print(document);
}

void print_table(const PlacedPlan& plan, int) {
  for (const PlacedShare& share : plan.jobs) fmt::print("{}\n", share.explanation);
  fmt::print("total {:.6g}, {}\n", plan.total,
             plan.is_best ? "no plan is better"
                          : fmt::format("another could be worth {:.6g} at most", plan.bound));
}

void print_table(const Plan& plan, int workers) {
  fmt::print("{:<24} {:>8} {:>10} {:>9}  {:<22} {:<22}\n", "job", "workers", "batch", "scaling",
             "fewer would cost", "more would add");
  const auto change = [](const std::optional<SizeOption>& size, const JobShare& share) {
    if (!size) return std::string("-");
    return fmt::format("{:.4g} (at {})", std::abs(size->value - share.value), size->workers);
  };
  for (const JobShare& share : plan.jobs) {
    fmt::print("{:<24} {:>8} {:>10} {:>9.4g}  {:<22} {:<22}\n", share.name, share.workers,
               share.batch, share.value, change(share.smaller, share), change(share.larger, share));
  }
  fmt::print("total {:.6g}, {} of {} workers used\n", plan.total, plan.workers_used, workers);
}

// Where the first job was read whose smallest size does not fit beside those before it.
std::string first_that_does_not_fit(const std::vector<JobRequest>& jobs, int64_t workers) {
  int64_t least = 0;
  for (const JobRequest& job : jobs) {
    if (job.may_wait || job.sizes.empty()) continue;
    least += std::min_element(
                 job.sizes.begin(), job.sizes.end(),
                 [](const SizeOption& a, const SizeOption& b) { return a.workers < b.workers; })
                 ->workers;
    if (least > workers) return fmt::format("{}: job '{}' is one too many: ", job.source, job.name);
  }
  return {};
}

template <class Plan>
Status show(const Plan& plan, const PlanArguments& arguments, const std::vector<JobRequest>& jobs,
            int workers) {
  if (arguments.json) print_json(plan, workers);
  if (!plan.feasible) {
    std::string where = first_that_does_not_fit(jobs, workers);
    if (where.empty()) {
      where =
          fmt::format("'{}': ", arguments.jobs.empty() ? arguments.throughputs : arguments.jobs);
    }
    return Status(StatusCode::kExhausted, fmt::format("plan {}{}", where, plan.reason));
  }
  if (!arguments.json) print_table(plan, workers);
  return {};
}

Status run_plan(const PlanArguments& arguments) {
  FFDL_ASSIGN_OR_RETURN(const std::vector<JobRequest> jobs,
                        arguments.jobs.empty()
                            ? load_throughput_tables(arguments.throughputs, arguments.batch)
                            : load_job_requests(arguments.jobs));
  if (arguments.nodes > 0) {
    const std::vector<int> nodes(static_cast<size_t>(arguments.nodes), arguments.gpus_per_node);
    FFDL_ASSIGN_OR_RETURN(const PlacedPlan plan, plan_placed_jobs(jobs, nodes));
    return show(plan, arguments, jobs, arguments.nodes * arguments.gpus_per_node);
  }
  for (const JobRequest& job : jobs) {
    const auto demands = [](const SizeOption& size) {
      return size.nodes_max > 0 || size.per_node_max > 0;
    };
    if (std::none_of(job.sizes.begin(), job.sizes.end(), demands)) continue;
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("plan {}: job '{}' says how its workers must lie; give --nodes "
                              "instead of --workers",
                              job.source, job.name));
  }
  FFDL_ASSIGN_OR_RETURN(const Plan plan, plan_jobs(jobs, arguments.workers));
  return show(plan, arguments, jobs, arguments.workers);
}

}  // namespace

void add_plan_command(CLI::App& app, Status& outcome) {
  const auto arguments = std::make_shared<PlanArguments>();  // shared with the callback below
  CLI::App* command = app.add_subcommand("plan", "Decide which job gets how many workers");
  auto* source = command->add_option_group("source")->require_option(1);
  source->add_option("--jobs", arguments->jobs,
                     "jobs and what each size is worth (YAML or JSON), or what 'ffdl profile' has "
                     "written");
  source->add_option("--throughputs", arguments->throughputs,
                     "folder of tables, one job each: steps per second by batch and workers");
  auto* cluster = command->add_option_group("cluster")->require_option(1);
  cluster->add_option("--workers", arguments->workers, "workers to share out, wherever they are")
      ->check(CLI::Range(0, 1'000'000'000));
  cluster
      ->add_option("--nodes", arguments->nodes,
                   "nodes whose workers are shared out: a plan that says where")
      ->check(CLI::Range(1, 100'000));
  command->add_option("--gpus-per-node", arguments->gpus_per_node, "of --nodes")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--batch", arguments->batch, "which batches of the tables: dynamic, min or max")
      ->transform(one_of<BatchChoice>({{"dynamic", BatchChoice::kDynamic},
                                       {"min", BatchChoice::kMin},
                                       {"max", BatchChoice::kMax}}));
  command->add_flag("--json", arguments->json, "print one JSON document");
  command->callback([arguments, &outcome] { outcome = run_plan(*arguments); });
}

}  // namespace ffdl::cli
