#include "cli/status.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/job_store.h"
#include "cli/print.h"
#include "ffdl/launch/running_job.h"
#include "ffdl/membership.h"

namespace ffdl::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kRedraw = std::chrono::milliseconds(500);

struct StatusArguments {
  JobArguments job;
  bool watch = false;
  bool json = false;
};

// The records of one id by a supervisor and by the job.
struct Row {
  std::string id;
  const WorkerStatus* worker = nullptr;
  const MemberStatus* member = nullptr;
  std::string hands_over_to{};
};

struct Picture {
  std::string name;
  JobStatus job;
  RunStatus run;
  std::vector<Row> rows;
};

// Returns the successor of a running worker; empty: it has none.
std::string successor_of(const WorkerStatus& worker, const RunStatus& run) {
  for (const WantedWorker& wanted : run.wanted_workers) {
    if (worker.phase == "running" && worker.id == fmt::format("worker-{}", wanted.takes_over_from))
      return fmt::format("worker-{}", wanted.number);
  }
  return {};
}

// Returns the members by rank, then the processes that are not members.
std::vector<Row> rows_of(const JobStatus& job, const RunStatus& run) {
  std::vector<Row> rows;
  for (const MemberStatus& member : job.members)
    rows.push_back({member.member.id, nullptr, &member, {}});
  for (const NodeStatus& node : run.nodes) {
    for (const WorkerStatus& worker : node.workers) {
      const auto known = std::find_if(rows.begin(), rows.end(),
                                      [&](const Row& row) { return row.id == worker.id; });
      if (known != rows.end()) {
        known->worker = &worker;
        known->hands_over_to = successor_of(worker, run);
      } else if (worker.process != 0) {
        rows.push_back({worker.id, &worker, nullptr, successor_of(worker, run)});
      }
    }
  }
  return rows;
}

Status look(Store& store, Picture& picture) {
  FFDL_ASSIGN_OR_RETURN(picture.job, read_job(store, picture.name));
  FFDL_ASSIGN_OR_RETURN(picture.run, read_run(store, picture.name));
  picture.rows = rows_of(picture.job, picture.run);
  if (!picture.rows.empty() || !picture.run.nodes.empty()) return {};
  return Status(StatusCode::kNotFound,
                fmt::format("show job '{}': the store has no such job; check the name and --store",
                            picture.name));
}

std::string phase_of(const JobStatus& job) {
  if (job.world.generation == 0) return "none";
  return job.world.phase == Phase::kActive ? "active" : "forming";
}

int64_t running(const RunStatus& run) {
  int64_t count = 0;
  for (const NodeStatus& node : run.nodes) {
    count += std::count_if(node.workers.begin(), node.workers.end(), [](const WorkerStatus& one) {
      return one.phase == "running" || one.phase == "stopping";
    });
  }
  return count;
}

Json to_json(const Row& row) {
  Json json = {{"id", row.id}};
  if (row.worker != nullptr) {
    json["process"] = row.worker->process;
    json["phase"] = row.worker->phase;
    json["restarts"] = row.worker->restarts;
    if (!row.hands_over_to.empty()) json["hands_over_to"] = row.hands_over_to;
  }
  if (row.member != nullptr) {
    json["incarnation"] = row.member->member.incarnation;
    json["address"] = row.member->member.address;
    json["rank"] = row.member->rank < 0 ? Json(nullptr) : Json(row.member->rank);
    json["alive"] = row.member->is_alive;
    json["leaving"] = row.member->is_leaving;
    json["generation"] = row.member->generation;
    json["step"] = row.member->step;
  }
  return json;
}

// Returns the state from which the job's lineage began; null: the initial state.
Json base_of(const JobStatus& job) {
  if (job.lineage_base.lineage == 0) return nullptr;
  return {{"lineage", job.lineage_base.lineage},
          {"step", job.lineage_base.step},
          {"member", job.lineage_holder.empty() ? Json(nullptr) : Json(job.lineage_holder)}};
}

void print_json(const Picture& picture) {
  const JobStatus& job = picture.job;
  Json all = {{"job", picture.name},
              {"generation", job.world.generation},
              {"phase", phase_of(job)},
              {"active_generation", job.active_generation},
              {"lineage", job.world.lineage},
              {"lineage_base", base_of(job)},
              {"term", job.term},
              {"leader", job.leader ? Json(job.leader->id) : Json(nullptr)},
              {"checkpoint", job.checkpoint ? Json(job.checkpoint->manifest) : Json(nullptr)},
              {"world_size", job.world.size()},
              {"done_since_step", job.completion ? Json(job.completion->step) : Json(nullptr)},
              {"ended_servers", job.ended_servers},
              {"wanted", picture.run.wanted_workers.size()},
              {"running", running(picture.run)},
              {"min_workers", nullptr},
              {"max_workers", nullptr},
              {"workers", Json::array()}};
  if (!picture.run.nodes.empty()) {
    all["min_workers"] = picture.run.nodes.front().min_workers;
    all["max_workers"] = picture.run.nodes.front().max_workers;
  }
  for (const Row& row : picture.rows) all["workers"].push_back(to_json(row));
  print_document(all.dump(2, ' ', true, Json::error_handler_t::replace) + "\n");
}

std::string header_of(const Picture& picture) {
  const JobStatus& job = picture.job;
  std::string text =
      job.world.generation == 0
          ? format_shown("job '{}': no world yet\n", picture.name)
          : format_shown(
                "job '{}': generation {} {}, {} members, lineage {}, leader {} (term {})\n",
                picture.name, job.world.generation, phase_of(job), job.world.size(),
                job.world.lineage, job.leader ? job.leader->id : "none", job.term);
  if (job.lineage_base.lineage > 0) {
    text += format_shown("its lineage began at step {} of lineage {}, from {}\n",
                         job.lineage_base.step, job.lineage_base.lineage,
                         job.lineage_holder.empty()
                             ? "a checkpoint"
                             : fmt::format("the memory of '{}'", job.lineage_holder));
  }
  for (const auto& [name, version] : job.ended_servers) {
    text += format_shown("its parameter server '{}' has ended with version {}\n", name, version);
  }
  if (job.completion)
    text += fmt::format("its training is done at step {}\n", job.completion->step);
  if (picture.run.nodes.empty()) return text + "no 'ffdl run' of this job is running\n";
  const NodeStatus& node = picture.run.nodes.front();
  return text + fmt::format("{} of {} wanted workers run ({} to {} allowed)\n",
                            running(picture.run), picture.run.wanted_workers.size(),
                            node.min_workers, node.max_workers);
}

std::string line_of(const Row& row) {
  const auto number = [](bool is_known, auto value) {
    return is_known ? std::to_string(value) : std::string("-");
  };
  const WorkerStatus* worker = row.worker;
  const MemberStatus* member = row.member;
  const bool is_member = member != nullptr;
  std::string state = worker != nullptr ? worker->phase : "elsewhere";
  if (!row.hands_over_to.empty()) state = "handing over";
  if (is_member && member->is_leaving) state = "leaving";
  if (is_member && !member->is_alive) state += ", gone";
  return format_shown("{:<16} {:<14} {:>8} {:>8} {:>11} {:>4} {:>10} {:>10}  {}\n", row.id, state,
                      number(worker != nullptr, worker != nullptr ? worker->process : 0),
                      number(worker != nullptr, worker != nullptr ? worker->restarts : 0),
                      number(is_member, is_member ? member->member.incarnation : 0),
                      number(is_member && member->rank >= 0, is_member ? member->rank : 0),
                      number(is_member, is_member ? member->generation : 0),
                      number(is_member, is_member ? member->step : 0),
                      is_member ? member->member.address : "");
}

std::string table_of(const Picture& picture) {
  std::string text = header_of(picture);
  text +=
      fmt::format("\n{:<16} {:<14} {:>8} {:>8} {:>11} {:>4} {:>10} {:>10}  {}\n", "id", "state",
                  "process", "restarts", "incarnation", "rank", "generation", "step", "address");
  for (const Row& row : picture.rows) text += line_of(row);
  return text;
}

Status run_status(const StatusArguments& arguments) {
  FFDL_ASSIGN_OR_RETURN(const auto store, open_job_store(arguments.job));
  const bool in_terminal = isatty(STDOUT_FILENO) != 0;
  const auto never = system_runtime().make_event();
  while (true) {
    Picture picture{.name = arguments.job.job, .job = {}, .run = {}, .rows = {}};
    FFDL_RETURN_IF_ERROR(look(*store, picture));
    if (arguments.watch && in_terminal) print("\x1b[H\x1b[J");
    arguments.json ? print_json(picture) : print_document(table_of(picture));
    std::fflush(stdout);
    if (!arguments.watch) return {};
    never->wait_until(deadline_in(kRedraw));
  }
}

}  // namespace

void add_status_command(CLI::App& app, Status& outcome) {
  const auto arguments = std::make_shared<StatusArguments>();  // shared with the callback below
  CLI::App* command = app.add_subcommand("status", "Show the workers of a job and their progress");
  add_job_arguments(*command, arguments->job);
  command->add_flag("--watch", arguments->watch,
                    "Repeat the output until the job ends; on a terminal, each output replaces the "
                    "previous output");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer(
      "This command only reads the job's store, and changes nothing.\n\n"
      "Examples:\n  ffdl status digits\n  ffdl status digits --watch\n"
      "  ffdl status digits --json | jq .generation");
  command->callback([arguments, &outcome] { outcome = run_status(*arguments); });
}

}  // namespace ffdl::cli
