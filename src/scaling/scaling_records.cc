#include "scaling/scaling_records.h"

#include <cmath>

#include "base/errors.h"
#include "wire/json_record.h"

namespace ffdl::scaling {
namespace {

using wire::dump;
using wire::Json;
using wire::RecordReader;

// Beyond these seconds a point in time does not fit into a WallTime.
constexpr double kSecondsMax = 9e9;

double seconds_of(Duration time) { return std::chrono::duration<double>(time).count(); }

// No job is as large as this count, and sums of two still fit.
constexpr int kCountMax = 1'000'000'000;

// Readers of optional fields return 0 where the field is missing.
double real_or_0(RecordReader& fields, const char* name) {
  return fields.has(name) ? fields.real(name) : 0;
}
uint64_t number_or_0(RecordReader& fields, const char* name) {
  return fields.has(name) ? fields.number(name) : 0;
}

Json to_json(const std::map<std::string, MetricValue>& metrics) {
  Json object = Json::object();
  for (const auto& [name, value] : metrics) {
    object[name] = {{"sum", value.sum}, {"members", value.members}};
  }
  return object;
}

// Reads metrics. A plain number is the value of one member.
std::map<std::string, MetricValue> metrics_in(RecordReader& outer) {
  std::map<std::string, MetricValue> metrics;
  if (!outer.has("metrics")) return metrics;
  outer.object("metrics", [&](RecordReader& fields) {
    for (const auto& [name, json] : outer.find("metrics")->items()) {
      MetricValue& value = metrics[name] = {0, 1};
      if (!json.is_object()) {
        value.sum = fields.real(name.c_str());
        continue;
      }
      fields.object(name.c_str(), [&](RecordReader& metric) {
        value = {metric.real("sum"), metric.integer("members", 0, kCountMax)};
      });
    }
  });
  return metrics;
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
  for (const StepMeasurement& speed : seen.speeds) {
    json["speeds"].push_back({{"workers", speed.workers},
                              {"batch", speed.batch},
                              {"steps", speed.steps},
                              {"step_s", speed.step_s},
                              {"age_s", seconds_of(speed.age)}});
  }
  return json;
}

std::vector<StepMeasurement> speeds_in(RecordReader& outer) {
  std::vector<StepMeasurement> speeds;
  if (!outer.has("speeds")) return speeds;
  outer.list("speeds", kCountMax, [&](RecordReader& fields) {
    StepMeasurement speed;
    speed.workers = fields.integer("workers", 0, kCountMax);
    speed.batch = fields.integer("batch", int64_t{0}, INT64_MAX);
    speed.steps = number_or_0(fields, "steps");
    speed.step_s = fields.real("step_s");
    const double age_s = real_or_0(fields, "age_s");
    if (std::abs(age_s) > kSecondsMax) return fields.fail("age_s");
    speed.age = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(age_s));
    speeds.push_back(speed);
  });
  return speeds;
}

Observation observation_in(RecordReader& fields) {
  Observation seen;
  seen.workers = fields.integer("workers", 0, kCountMax);
  if (fields.has("idle_workers")) {
    seen.idle_workers = fields.integer("idle_workers", -kCountMax, kCountMax);
  }
  seen.step = number_or_0(fields, "step");
  seen.step_s = real_or_0(fields, "step_s");
  seen.samples_per_s = real_or_0(fields, "samples_per_s");
  seen.communication_share = real_or_0(fields, "communication_share");
  seen.metrics = metrics_in(fields);
  seen.speeds = speeds_in(fields);
  return seen;
}

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
  const Json json = wire::parse_json(text);
  RecordReader fields(json);
  Measurement m;
  m.generation = fields.number("generation");
  m.workers = fields.integer("workers", 1, INT32_MAX);
  m.step = fields.number("step");
  m.steps = fields.number("steps");
  m.seconds = fields.real("seconds");
  m.samples = fields.number("samples");
  m.communication_share = fields.real("communication_share");
  m.batch = number_or_0(fields, "batch");
  m.host_memory_bytes = number_or_0(fields, "host_memory_bytes");
  m.metrics = metrics_in(fields);
  FFDL_RETURN_IF_ERROR(fields.outcome("a measurement"));
  return m;
}

std::string encode(const LoggedDecision& decision) {
  Json json = {{"event", "decision"},
               {"t_s", seconds_of(decision.observation.at.time_since_epoch())},
               {"job", decision.job},
               {"proposed", decision.proposed},
               {"workers", decision.workers},
               {"reason", decision.reason}};
  if (!decision.refused.empty()) json["refused"] = decision.refused;
  json["observation"] = to_json(decision.observation);
  return dump(json);
}

Result<std::optional<Observation>> parse_observation(std::string_view line) {
  const Json json = wire::parse_json(line);
  if (!json.is_object()) return base::invalid_argument("not a JSON object");
  RecordReader fields(json);
  if (!fields.has("observation") && !fields.has("workers")) return std::optional<Observation>();
  const double at_s = fields.real("t_s");
  if (fields.failed() || std::abs(at_s) > kSecondsMax) {
    return base::invalid_argument("'t_s' is missing, or not a number of seconds");
  }
  Observation seen;
  if (fields.has("observation")) {
    fields.object("observation", [&](RecordReader& inside) { seen = observation_in(inside); });
  } else {
    seen = observation_in(fields);
  }
  if (fields.failed()) {
    return base::invalid_argument("not an observation: '{}' is missing, or has another type",
                                  fields.why());
  }
  seen.at = WallTime(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(at_s)));
  return std::optional(std::move(seen));
}

}  // namespace ffdl::scaling
