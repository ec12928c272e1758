#include "launch/records.h"

#include <fmt/ranges.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/limits.h"
#include "launch/wanted_workers.h"

namespace ffdl::launch {
namespace {

using Json = nlohmann::ordered_json;

// -1 where there is no such number.
int64_t number_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<int64_t>() : -1;
}

std::string text_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

std::string encode(const NodeStatus& node) {
  Json workers = Json::array();
  for (const WorkerStatus& worker : node.workers) {
    workers.push_back({{"id", worker.id},
                       {"phase", worker.phase},
                       {"process", worker.process},
                       {"restarts", worker.restarts}});
  }
  return Json({{"node", node.node},
               {"process", node.process},
               {"min_workers", node.min_workers},
               {"max_workers", node.max_workers},
               {"workers", workers}})
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<NodeStatus> parse_node(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  const Status corrupt(StatusCode::kCorrupt,
                       "read a node's record: it is none; something else wrote it, or another "
                       "version of ffdl");
  if (!json.is_object() || !json.contains("workers") || !json["workers"].is_array()) return corrupt;
  NodeStatus node{static_cast<int>(number_in(json, "node")), number_in(json, "process"),
                  static_cast<int>(number_in(json, "min_workers")),
                  static_cast<int>(number_in(json, "max_workers"))};
  if (node.node < 0 || node.process < 0 || node.min_workers < 0 || node.max_workers < 0) {
    return corrupt;
  }
  for (const Json& worker : json["workers"]) {
    if (!worker.is_object()) return corrupt;
    node.workers.push_back({text_in(worker, "id"), text_in(worker, "phase"),
                            number_in(worker, "process"),
                            static_cast<int>(number_in(worker, "restarts"))});
    if (node.workers.back().id.empty() || node.workers.back().restarts < 0) return corrupt;
  }
  return node;
}

}  // namespace ffdl::launch

namespace ffdl {
namespace {

using launch::WantedWorkers;
using Change = std::function<Result<WantedWorkers>(const RunStatus&)>;

// Puts another set of workers in the place of the one that is wanted. `doing` begins messages.
Status change_wanted(Store& store, std::string_view job, std::string_view doing,
                     const Change& change) {
  const std::string key = launch::Keys(job).wanted();
  for (int attempt = 0; attempt < base::kContentionMax; ++attempt) {
    const auto entry = store.get(key);
    if (!entry.ok() && entry.status().code() != StatusCode::kNotFound) return entry.status();
    FFDL_ASSIGN_OR_RETURN(RunStatus run, read_run(store, job));
    if (run.nodes.empty()) {
      return base::make_error(StatusCode::kNotFound, "{}: nobody runs it; start it with 'ffdl run'",
                              doing);
    }
    run.wanted_workers = entry.ok() ? launch::parse_wanted(entry->value) : WantedWorkers();
    FFDL_ASSIGN_OR_RETURN(const WantedWorkers next, change(run));
    const auto put =
        store.compare_and_put(key, entry.ok() ? entry->revision : 0, launch::encode(next));
    if (put.ok()) return {};
    if (put.status().code() != StatusCode::kConflict) return put.status();
  }
  return base::make_error(StatusCode::kUnavailable, "{}: others change it too; try again", doing);
}

// Whom that worker's place goes to.
Result<int> find_target(const RunStatus& run, std::string_view doing, int from,
                        std::optional<int> to) {
  if (launch::place_of(run.wanted_workers, from) < 0) {
    std::vector<int> numbers;
    for (const WantedWorker& worker : run.wanted_workers) numbers.push_back(worker.number);
    return base::invalid_argument("{}: worker {} is not wanted; name one of {}", doing, from,
                                  fmt::join(numbers, ", "));
  }
  std::optional<int> idle;
  std::string phase = "on no node that is there";
  for (const NodeStatus& node : run.nodes) {
    for (const WorkerStatus& worker : node.workers) {
      const int number = launch::number_of(worker.id);
      if (number == to) phase = worker.phase;
      if (worker.phase != "idle" || launch::place_of(run.wanted_workers, number) >= 0) continue;
      if (number == to) return number;
      if (!idle || number < *idle) idle = number;
    }
  }
  if (to) {
    const bool is_wanted = launch::place_of(run.wanted_workers, *to) >= 0;
    return base::invalid_argument("{}: worker {} is {}; name one that is idle, or none", doing, *to,
                                  is_wanted ? "wanted itself" : phase);
  }
  if (idle) return *idle;
  return base::invalid_argument(
      "{}: no worker is idle; ask for fewer with 'ffdl scale', or start it with a larger MAX of "
      "--workers MIN:MAX",
      doing);
}

}  // namespace

Result<RunStatus> read_run(Store& store, std::string_view job) {
  const launch::Keys keys(job);
  FFDL_ASSIGN_OR_RETURN(const std::vector<Entry> entries, store.list(keys.prefix()));
  RunStatus run;
  for (const Entry& entry : entries) {
    if (entry.key == keys.wanted()) run.wanted_workers = launch::parse_wanted(entry.value);
    if (!entry.key.starts_with(keys.nodes())) continue;
    FFDL_ASSIGN_OR_RETURN(NodeStatus node, launch::parse_node(entry.value));
    run.nodes.push_back(std::move(node));
  }
  return run;
}

Status scale_job(Store& store, std::string_view job, int workers) {
  const std::string doing = fmt::format("scale job '{}'", job);
  return change_wanted(store, job, doing, [&](const RunStatus& run) -> Result<WantedWorkers> {
    const NodeStatus& node = run.nodes.front();
    if (workers < node.min_workers || workers > node.max_workers) {
      return base::invalid_argument(
          "{}: {} workers are wanted, and it was started for {} to {}; ask for one of these, or "
          "start it with another --workers MIN:MAX",
          doing, workers, node.min_workers, node.max_workers);
    }
    return launch::scaled(run.wanted_workers, workers);
  });
}

Result<int> migrate_worker(Store& store, std::string_view job, int from, std::optional<int> to) {
  const std::string doing = fmt::format("migrate worker {} of job '{}'", from, job);
  int target = 0;
  FFDL_RETURN_IF_ERROR(
      change_wanted(store, job, doing, [&](const RunStatus& run) -> Result<WantedWorkers> {
        FFDL_ASSIGN_OR_RETURN(target, find_target(run, doing, from, to));
        return launch::moved(run.wanted_workers, from, target);
      }));
  return target;
}

}  // namespace ffdl
