#include "cluster/autoscaler/autoscaler_records.h"

#include <algorithm>
#include <cstdint>

#include "base/errors.h"
#include "ffdl/cluster/job_planner.h"
#include "wire/json_record.h"

namespace ffdl::cluster {
namespace {

using wire::dump;
using wire::Json;
using wire::RecordReader;

constexpr size_t kSizesMax = 1 << 20;
constexpr std::string_view kDecisions = "the decision for the jobs";

int workers_in(RecordReader& fields, int least) {
  return fields.integer("workers", least, INT32_MAX);
}

int64_t batch_in(RecordReader& fields, int64_t least) {
  return fields.integer("batch", least, INT64_MAX);
}

// Reads a limit on placement; 0 if it is missing.
int16_t limit_in(RecordReader& fields, const char* name) {
  return fields.has(name) ? fields.integer(name, int16_t{0}, int16_t{INT16_MAX}) : int16_t{0};
}

SizeOption size_in(RecordReader& fields) {
  SizeOption size = {workers_in(fields, 1), fields.real("value"), batch_in(fields, 0)};
  size.nodes_max = limit_in(fields, "nodes_max");
  size.per_node_max = limit_in(fields, "per_node_max");
  return size;
}

Answer answer_in(RecordReader& fields) {
  Answer answer;
  answer.place = fields.number("place");
  answer.allocation = {fields.text("job"), workers_in(fields, 0), batch_in(fields, 0),
                       fields.truth("dropped"), fields.text("reason")};
  if (!fields.has("nodes")) return answer;
  int64_t placed = 0;
  fields.list("nodes", kSizesMax, [&](RecordReader& node) {
    answer.allocation.nodes.push_back({node.text("node"), workers_in(node, 1)});
    placed += answer.allocation.nodes.back().workers;
  });
  if (placed > answer.allocation.workers) fields.fail("nodes");
  return answer;
}

StepMeasurement speed_in(RecordReader& fields) {
  StepMeasurement speed;
  speed.workers = workers_in(fields, 1);
  speed.batch = batch_in(fields, 1);
  speed.steps = fields.number("steps");
  speed.step_s = fields.real("step_s");
  if (speed.step_s <= 0) fields.fail("step_s");
  return speed;
}

}  // namespace

Status check_queued(const JobRequest& request) {
  const bool is_name = !request.name.empty() &&
                       std::all_of(request.name.begin(), request.name.end(),
                                   [](char c) { return c > ' ' && c < '\x7f' && c != '/'; });
  if (!is_name) {
    return base::invalid_argument(
        "queue job '{}': it is not a valid name; use letters, digits and signs except '/'",
        request.name);
  }
  if (request.sizes.empty()) {
    return base::invalid_argument("queue job '{}': it has no size; give at least one",
                                  request.name);
  }
  if (request.only_nodes.size() > 1) {
    return base::invalid_argument(
        "queue job '{}': only_nodes names {} nodes; name one node, or none to allow all",
        request.name, request.only_nodes.size());
  }
  const JobRequest sizes{.name = request.name, .sizes = request.sizes};
  return plan_jobs(std::span(&sizes, 1), {}).status();
}

std::string encode(const RequestRecord& record) {
  Json sizes = Json::array();
  for (const SizeOption& size : record.request.sizes) {
    Json one = {{"workers", size.workers}, {"value", size.value}, {"batch", size.batch}};
    if (size.nodes_max > 0) one["nodes_max"] = size.nodes_max;
    if (size.per_node_max > 0) one["per_node_max"] = size.per_node_max;
    sizes.push_back(std::move(one));
  }
  Json json = {{"place", record.place}, {"sizes", std::move(sizes)}};
  if (!record.request.only_nodes.empty()) json["node"] = record.request.only_nodes.front();
  return dump(json);
}

std::string encode(const std::vector<Answer>& answers) {
  Json list = Json::array();
  for (const Answer& answer : answers) {
    Json nodes = Json::array();
    for (const NodeWorkers& node : answer.allocation.nodes) {
      nodes.push_back({{"node", node.node}, {"workers", node.workers}});
    }
    list.push_back({{"job", answer.allocation.name},
                    {"place", answer.place},
                    {"workers", answer.allocation.workers},
                    {"batch", answer.allocation.batch},
                    {"dropped", answer.allocation.is_dropped},
                    {"reason", answer.allocation.reason},
                    {"nodes", std::move(nodes)}});
  }
  return dump(list);
}

std::string encode(std::span<const StepMeasurement> speeds) {
  Json list = Json::array();
  for (const StepMeasurement& speed : speeds) {
    list.push_back({{"workers", speed.workers},
                    {"batch", speed.batch},
                    {"steps", speed.steps},
                    {"step_s", speed.step_s}});
  }
  return dump(list);
}

Result<std::vector<StepMeasurement>> parse_speeds(std::string_view text) {
  const Json json = wire::parse_json(text);
  std::vector<StepMeasurement> speeds;
  FFDL_RETURN_IF_ERROR(wire::read_records(json, "the speed of a job", [&](RecordReader& fields) {
    speeds.push_back(speed_in(fields));
  }));
  return speeds;
}

Result<RequestRecord> parse_request(std::string_view text) {
  const Json json = wire::parse_json(text);
  RecordReader fields(json);
  RequestRecord record;
  record.place = fields.number("place");
  fields.list("sizes", kSizesMax,
              [&](RecordReader& size) { record.request.sizes.push_back(size_in(size)); });
  if (record.request.sizes.empty()) fields.fail("sizes");
  if (fields.has("node")) record.request.only_nodes = {fields.text("node")};
  FFDL_RETURN_IF_ERROR(fields.outcome("a job's request"));
  return record;
}

Result<std::vector<Answer>> parse_answers(std::string_view text) {
  const Json json = wire::parse_json(text);
  std::vector<Answer> answers;
  FFDL_RETURN_IF_ERROR(wire::read_records(
      json, kDecisions, [&](RecordReader& fields) { answers.push_back(answer_in(fields)); }));
  return answers;
}

}  // namespace ffdl::cluster
