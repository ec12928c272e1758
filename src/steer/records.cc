#include "steer/records.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/errors.h"

namespace ffdl::steer {
namespace {

using Json = nlohmann::ordered_json;

// Beyond these seconds a point in time does not fit into a WallTime.
constexpr double kSecondsMax = 9e9;

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

double seconds_of(Duration time) { return std::chrono::duration<double>(time).count(); }

bool read(const Json& json, double& to) {
  if (!json.is_number()) return false;
  to = json.get<double>();
  return std::isfinite(to);
}

bool read(const Json& json, uint64_t& to) {
  if (!json.is_number_unsigned()) return false;
  to = json.get<uint64_t>();
  return true;
}

bool read(const Json& json, int& to) {
  if (!json.is_number_integer()) return false;
  const auto value = json.get<int64_t>();
  to = static_cast<int>(value);
  return value == to;
}

// How many. No job is as large, and sums of two still fit.
constexpr int kCountMax = 1'000'000'000;
bool read_count(const Json& json, int& to) { return read(json, to) && to >= 0 && to <= kCountMax; }

// Whether a field is there and fits; a field that need not be there keeps what `to` is.
enum class Need { kMust, kMay };
template <class T>
bool field(const Json& object, const char* name, Need need, T& to) {
  const auto found = object.find(name);
  if (found == object.end()) return need == Need::kMay;
  return read(*found, to);
}

Json to_json(const std::map<std::string, MetricValue>& metrics) {
  Json object = Json::object();
  for (const auto& [name, value] : metrics) {
    object[name] = {{"sum", value.sum}, {"members", value.members}};
  }
  return object;
}

// A plain number is what one member said.
bool read_metrics(const Json& object, std::map<std::string, MetricValue>& metrics) {
  const auto found = object.find("metrics");
  if (found == object.end()) return true;
  if (!found->is_object()) return false;
  for (const auto& [name, json] : found->items()) {
    MetricValue value{0, 1};
    if (json.is_object()) {
      const auto members = json.find("members");
      if (!field(json, "sum", Need::kMust, value.sum) || members == json.end() ||
          !read_count(*members, value.members)) {
        return false;
      }
    } else if (!read(json, value.sum)) {
      return false;
    }
    metrics[name] = value;
  }
  return true;
}

Json to_json(const Observation& seen) {
  Json json = {{"workers", seen.workers},
               {"step", seen.step},
               {"step_s", seen.step_s},
               {"samples_per_s", seen.samples_per_s},
               {"communication_share", seen.communication_share}};
  if (seen.idle_workers) json["idle_workers"] = *seen.idle_workers;
  json["metrics"] = to_json(seen.metrics);
  json["speeds"] = Json::array();
  for (const SizeSpeed& speed : seen.speeds) {
    json["speeds"].push_back({{"workers", speed.workers},
                              {"samples_per_s", speed.samples_per_s},
                              {"age_s", seconds_of(speed.age)}});
  }
  return json;
}

bool read_speeds(const Json& object, std::vector<SizeSpeed>& speeds) {
  const auto found = object.find("speeds");
  if (found == object.end()) return true;
  if (!found->is_array()) return false;
  for (const Json& one : *found) {
    SizeSpeed speed;
    double age_s = 0;
    const auto workers = one.is_object() ? one.find("workers") : one.end();
    if (workers == one.end() || !read_count(*workers, speed.workers) ||
        !field(one, "samples_per_s", Need::kMust, speed.samples_per_s) ||
        !field(one, "age_s", Need::kMay, age_s) || std::abs(age_s) > kSecondsMax) {
      return false;
    }
    speed.age = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(age_s));
    speeds.push_back(speed);
  }
  return true;
}

bool read_observation(const Json& object, Observation& seen) {
  const auto workers = object.find("workers");
  if (workers == object.end() || !read_count(*workers, seen.workers)) return false;
  if (const auto idle = object.find("idle_workers"); idle != object.end()) {
    int& count = seen.idle_workers.emplace();
    if (!read(*idle, count) || std::abs(int64_t{count}) > kCountMax) return false;
  }
  return field(object, "step", Need::kMay, seen.step) &&
         field(object, "step_s", Need::kMay, seen.step_s) &&
         field(object, "samples_per_s", Need::kMay, seen.samples_per_s) &&
         field(object, "communication_share", Need::kMay, seen.communication_share) &&
         read_metrics(object, seen.metrics) && read_speeds(object, seen.speeds);
}

Json parse(std::string_view text) { return Json::parse(text, nullptr, false); }

}  // namespace

std::string encode(const Measurement& measurement) {
  return dump({{"generation", measurement.generation},
               {"workers", measurement.workers},
               {"step", measurement.step},
               {"steps", measurement.steps},
               {"seconds", measurement.seconds},
               {"samples", measurement.samples},
               {"batch", measurement.batch},
               {"communication_share", measurement.communication_share},
               {"host_memory_bytes", measurement.host_memory_bytes},
               {"metrics", to_json(measurement.metrics)}});
}

Result<Measurement> parse_measurement(std::string_view text) {
  const Json json = parse(text);
  Measurement m;
  if (!json.is_object() || !field(json, "generation", Need::kMust, m.generation) ||
      !field(json, "workers", Need::kMust, m.workers) || m.workers <= 0 ||
      !field(json, "step", Need::kMust, m.step) || !field(json, "steps", Need::kMust, m.steps) ||
      !field(json, "seconds", Need::kMust, m.seconds) ||
      !field(json, "samples", Need::kMust, m.samples) ||
      !field(json, "communication_share", Need::kMust, m.communication_share) ||
      !field(json, "batch", Need::kMay, m.batch) ||
      !field(json, "memory_bytes", Need::kMay, m.host_memory_bytes) ||  // its name before
      !field(json, "host_memory_bytes", Need::kMay, m.host_memory_bytes) ||
      !read_metrics(json, m.metrics)) {
    return Status(StatusCode::kCorrupt,
                  "read a measurement: it is none; something else wrote it, or another version of "
                  "ffdl");
  }
  return m;
}

std::string encode(const LoggedDecision& decision) {
  Json json = {{"event", "decision"},         {"t_s", seconds_of(decision.at.time_since_epoch())},
               {"job", decision.job},         {"proposed", decision.proposed},
               {"workers", decision.workers}, {"reason", decision.reason}};
  if (!decision.refused.empty()) json["refused"] = decision.refused;
  json["observation"] = to_json(decision.observation);
  return dump(json);
}

Result<std::optional<TracePoint>> parse_observation(std::string_view line) {
  const Json json = parse(line);
  if (!json.is_object()) return base::invalid_argument("no object of JSON");
  const auto inside = json.find("observation");
  const bool is_decision = inside != json.end();
  if (!is_decision && json.find("workers") == json.end()) return std::optional<TracePoint>();
  double at_s = 0;
  if (!field(json, "t_s", Need::kMust, at_s) || std::abs(at_s) > kSecondsMax) {
    return base::invalid_argument("'t_s' is missing, or no number of seconds");
  }
  TracePoint seen;
  seen.at = WallTime(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(at_s)));
  if (is_decision && !inside->is_object()) {
    return base::invalid_argument("'observation' is no object");
  }
  if (!read_observation(is_decision ? *inside : json, seen.observation)) {
    return base::invalid_argument("no observation: a field is missing, or of another kind");
  }
  return std::optional(std::move(seen));
}

}  // namespace ffdl::steer
