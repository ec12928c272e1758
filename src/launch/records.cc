#include "launch/records.h"

#include <nlohmann/json.hpp>

#include "base/errors.h"
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

Result<launch::FoundRun> launch::find_run(Store& store, std::string_view job) {
  const Keys keys(job);
  FFDL_ASSIGN_OR_RETURN(const std::vector<Entry> entries, store.list(keys.prefix()));
  FoundRun found;
  for (const Entry& entry : entries) {
    if (entry.key == keys.wanted()) {
      found.run.wanted_workers = parse_wanted(entry.value);
      found.wanted = entry.revision;
    }
    if (!entry.key.starts_with(keys.nodes())) continue;
    FFDL_ASSIGN_OR_RETURN(NodeStatus node, parse_node(entry.value));
    found.run.nodes.push_back(std::move(node));
  }
  return found;
}

Result<RunStatus> read_run(Store& store, std::string_view job) {
  FFDL_ASSIGN_OR_RETURN(launch::FoundRun found, launch::find_run(store, job));
  return std::move(found.run);
}

}  // namespace ffdl
