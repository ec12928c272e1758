#include "jobs/records.h"

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace ffdl::jobs {
namespace {

using Json = nlohmann::ordered_json;

Status corrupt(std::string_view what) {
  return Status(StatusCode::kCorrupt,
                fmt::format("read {}: it is none; something else wrote it, or another version of "
                            "ffdl",
                            what));
}

bool read_number(const Json& object, const char* name, uint64_t most, uint64_t& to) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned()) return false;
  to = found->get<uint64_t>();
  return to <= most;
}

// How workers must lie; 0 where it is not said.
bool read_demand(const Json& object, const char* name, int16_t& to) {
  if (!object.contains(name)) return true;
  uint64_t most = 0;
  if (!read_number(object, name, INT16_MAX, most)) return false;
  to = static_cast<int16_t>(most);
  return true;
}

bool read_size(const Json& object, SizeOption& size) {
  uint64_t workers = 0, batch = 0;
  if (!object.is_object() || !read_number(object, "workers", INT32_MAX, workers) ||
      !read_number(object, "batch", INT64_MAX, batch)) {
    return false;
  }
  const auto value = object.find("value");
  if (value == object.end() || !value->is_number()) return false;
  size = {static_cast<int>(workers), value->get<double>(), static_cast<int64_t>(batch)};
  return std::isfinite(size.value) && size.workers > 0 &&
         read_demand(object, "nodes_max", size.nodes_max) &&
         read_demand(object, "per_node_max", size.per_node_max);
}

// Of nodes and their workers; none where there is no list.
bool read_nodes(const Json& object, std::vector<NodeAllocation>& nodes) {
  const auto list = object.find("nodes");
  if (list == object.end()) return true;
  if (!list->is_array()) return false;
  for (const Json& one : *list) {
    uint64_t workers = 0;
    if (!one.is_object() || !read_number(one, "workers", INT32_MAX, workers)) return false;
    const auto node = one.find("node");
    if (node == one.end() || !node->is_string() || workers == 0) return false;
    nodes.push_back({node->get<std::string>(), static_cast<int>(workers)});
  }
  return true;
}

bool read_answer(const Json& object, Answer& answer) {
  uint64_t workers = 0, batch = 0;
  if (!read_number(object, "place", UINT64_MAX, answer.place) ||
      !read_number(object, "workers", INT32_MAX, workers) ||
      !read_number(object, "batch", INT64_MAX, batch)) {
    return false;
  }
  const auto job = object.find("job"), reason = object.find("reason"),
             dropped = object.find("dropped");
  const auto end = object.end();
  if (job == end || reason == end || dropped == end || !job->is_string() || !reason->is_string() ||
      !dropped->is_boolean()) {
    return false;
  }
  answer.allocation = {job->get<std::string>(), static_cast<int>(workers),
                       static_cast<int64_t>(batch), dropped->get<bool>(),
                       reason->get<std::string>()};
  return read_nodes(object, answer.allocation.nodes);
}

bool read_speed(const Json& object, MeasuredSpeed& speed) {
  uint64_t workers = 0, batch = 0;
  if (!object.is_object() || !read_number(object, "workers", INT32_MAX, workers) ||
      !read_number(object, "batch", INT64_MAX, batch) ||
      !read_number(object, "steps", UINT64_MAX, speed.steps)) {
    return false;
  }
  const auto step_s = object.find("step_s");
  if (step_s == object.end() || !step_s->is_number()) return false;
  speed.workers = static_cast<int>(workers);
  speed.batch = static_cast<int64_t>(batch);
  speed.step_s = step_s->get<double>();
  return std::isfinite(speed.step_s) && speed.step_s > 0 && workers > 0 && batch > 0;
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string encode(const DemandRecord& record) {
  Json sizes = Json::array();
  for (const SizeOption& size : record.demand.sizes) {
    Json one = {{"workers", size.workers}, {"value", size.value}, {"batch", size.batch}};
    if (size.nodes_max > 0) one["nodes_max"] = size.nodes_max;
    if (size.per_node_max > 0) one["per_node_max"] = size.per_node_max;
    sizes.push_back(std::move(one));
  }
  Json json = {{"place", record.place}, {"sizes", std::move(sizes)}};
  if (!record.demand.node.empty()) json["node"] = record.demand.node;
  return dump(json);
}

std::string encode(const std::vector<Answer>& answers) {
  Json list = Json::array();
  for (const Answer& answer : answers) {
    Json nodes = Json::array();
    for (const NodeAllocation& node : answer.allocation.nodes) {
      nodes.push_back({{"node", node.node}, {"workers", node.workers}});
    }
    list.push_back({{"job", answer.allocation.job},
                    {"place", answer.place},
                    {"workers", answer.allocation.workers},
                    {"batch", answer.allocation.batch},
                    {"dropped", answer.allocation.is_dropped},
                    {"reason", answer.allocation.reason},
                    {"nodes", std::move(nodes)}});
  }
  return dump(list);
}

std::string encode(std::span<const MeasuredSpeed> speeds) {
  Json list = Json::array();
  for (const MeasuredSpeed& speed : speeds) {
    list.push_back({{"workers", speed.workers},
                    {"batch", speed.batch},
                    {"steps", speed.steps},
                    {"step_s", speed.step_s}});
  }
  return dump(list);
}

Result<std::vector<MeasuredSpeed>> parse_speeds(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_array()) return corrupt("how fast a job was");
  std::vector<MeasuredSpeed> speeds;
  for (const Json& one : json) {
    if (!read_speed(one, speeds.emplace_back())) return corrupt("how fast a job was");
  }
  return speeds;
}

Result<DemandRecord> parse_demand(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  DemandRecord record;
  if (!json.is_object() || !read_number(json, "place", UINT64_MAX, record.place) ||
      !json.contains("sizes") || !json["sizes"].is_array() || json["sizes"].empty()) {
    return corrupt("a job's demand");
  }
  for (const Json& one : json["sizes"]) {
    if (!read_size(one, record.demand.sizes.emplace_back())) return corrupt("a job's demand");
  }
  if (json.contains("node")) {
    if (!json["node"].is_string()) return corrupt("a job's demand");
    record.demand.node = json["node"].get<std::string>();
  }
  return record;
}

Result<std::vector<Answer>> parse_answers(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_array()) return corrupt("what was decided for the jobs");
  std::vector<Answer> answers;
  for (const Json& one : json) {
    if (!one.is_object() || !read_answer(one, answers.emplace_back())) {
      return corrupt("what was decided for the jobs");
    }
  }
  return answers;
}

}  // namespace ffdl::jobs
