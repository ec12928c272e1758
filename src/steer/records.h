#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "ffdl/elastic_policy.h"
#include "ffdl/policy_replay.h"
#include "ffdl/step_meter.h"

// What meters write to the store, and what is written to logs of decisions.
namespace ffdl::steer {

// Jobs' own records begin with "ffdl/", so that no name of a job meets these.
inline std::string measured_key(std::string_view job) {
  return fmt::format("ffdl-steer/measured/{}", job);
}

std::string encode(const Measurement& measurement);
// Errors: kCorrupt.
Result<Measurement> parse_measurement(std::string_view text);

// One line of a log.
struct LoggedDecision {
  WallTime at{};
  std::string job{};
  Observation observation{};
  int proposed = 0;
  int workers = 0;
  std::string reason{};
  std::string refused{};  // why the size could not be asked for; empty: it could, or need not be
};

std::string encode(const LoggedDecision& decision);

// What a line of a log tells: a decision's observation, or one that stands by itself. Nothing: it
// is JSON of another kind. Errors: kInvalidArgument (what is wrong with it).
Result<std::optional<TracePoint>> parse_observation(std::string_view line);

}  // namespace ffdl::steer
