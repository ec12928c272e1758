#include "cli/plan.h"

#include <fmt/core.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "ffdl/job_planner.h"
#include "ffdl/plan_files.h"

namespace ffdl::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PlanArguments {
  std::string jobs;
  std::string throughputs;
  int workers = 0;
  BatchChoice batch = BatchChoice::kDynamic;
  bool json = false;
};

Json to_json(const std::optional<SizeOption>& size) {
  if (!size) return nullptr;
  return {{"workers", size->workers}, {"batch", size->batch}, {"scaling", size->value}};
}

void print_json(const Plan& plan, int workers) {
  Json document = {{"feasible", plan.feasible}};
  if (!plan.feasible) document["reason"] = plan.reason;
  document["total"] = plan.total;
  document["workers"] = workers;
  document["workers_used"] = plan.workers_used;
  document["jobs"] = Json::array();
  for (const JobShare& share : plan.jobs) {
    document["jobs"].push_back({{"job", share.name},
                                {"workers", share.workers},
                                {"batch", share.batch},
                                {"scaling", share.value},
                                {"smaller", to_json(share.smaller)},
                                {"larger", to_json(share.larger)},
                                {"explanation", explain(share)}});
  }
  fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
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

Status run_plan(const PlanArguments& arguments) {
  const std::string& source = arguments.jobs.empty() ? arguments.throughputs : arguments.jobs;
  FFDL_ASSIGN_OR_RETURN(const std::vector<JobRequest> jobs,
                        arguments.jobs.empty()
                            ? load_throughput_tables(arguments.throughputs, arguments.batch)
                            : load_job_requests(arguments.jobs));
  FFDL_ASSIGN_OR_RETURN(const Plan plan, plan_jobs(jobs, arguments.workers));
  if (arguments.json) print_json(plan, arguments.workers);
  if (!plan.feasible) {
    return Status(StatusCode::kExhausted, fmt::format("plan '{}': {}", source, plan.reason));
  }
  if (!arguments.json) print_table(plan, arguments.workers);
  return {};
}

}  // namespace

void add_plan_command(CLI::App& app, Status& outcome) {
  const auto arguments = std::make_shared<PlanArguments>();  // shared with the callback below
  CLI::App* command = app.add_subcommand("plan", "Decide which job gets how many workers");
  auto* source = command->add_option_group("source")->require_option(1);
  source->add_option("--jobs", arguments->jobs, "jobs and what each size is worth (YAML or JSON)");
  source->add_option("--throughputs", arguments->throughputs,
                     "folder of tables, one job each: steps per second by batch and workers");
  command->add_option("--workers", arguments->workers, "workers to share out")
      ->required()
      ->check(CLI::Range(0, 1'000'000'000));
  command
      ->add_option("--batch", arguments->batch, "which batches of the tables: dynamic, min or max")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, BatchChoice>{{"dynamic", BatchChoice::kDynamic},
                                             {"min", BatchChoice::kMin},
                                             {"max", BatchChoice::kMax}}));
  command->add_flag("--json", arguments->json, "print one JSON document");
  command->callback([arguments, &outcome] { outcome = run_plan(*arguments); });
}

}  // namespace ffdl::cli
