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

bool read_size(const Json& object, SizeOption& size) {
  uint64_t workers = 0, batch = 0;
  if (!object.is_object() || !read_number(object, "workers", INT32_MAX, workers) ||
      !read_number(object, "batch", INT64_MAX, batch)) {
    return false;
  }
  const auto value = object.find("value");
  if (value == object.end() || !value->is_number()) return false;
  size = {static_cast<int>(workers), value->get<double>(), static_cast<int64_t>(batch)};
  return std::isfinite(size.value) && size.workers > 0;
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
  return true;
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
    sizes.push_back({{"workers", size.workers}, {"value", size.value}, {"batch", size.batch}});
  }
  return dump({{"place", record.place}, {"sizes", sizes}});
}

std::string encode(const std::vector<Answer>& answers) {
  Json list = Json::array();
  for (const Answer& answer : answers) {
    list.push_back({{"job", answer.allocation.job},
                    {"place", answer.place},
                    {"workers", answer.allocation.workers},
                    {"batch", answer.allocation.batch},
                    {"dropped", answer.allocation.is_dropped},
                    {"reason", answer.allocation.reason}});
  }
  return dump(list);
}

std::string encode(const std::vector<MeasuredSpeed>& speeds) {
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
