#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "ffdl/scaling/elastic_policy.h"
#include "scaling/measurement.h"

// The records that StepMetrics writes to the store, and the lines of logs of decisions.
namespace ffdl::scaling {

// The jobs' own records begin with "ffdl/", so that no job name collides with these keys.
inline std::string measured_key(std::string_view job) {
  return fmt::format("ffdl-steer/measured/{}", job);
}

std::string encode(const Measurement& measurement);
// Errors: kCorrupt.
Result<Measurement> parse_measurement(std::string_view text);

// One line of a log.
struct LoggedDecision {
  std::string job{};
  Observation observation{};
  int proposed = 0;
  int workers = 0;
  std::string reason{};
  std::string refused{};  // why the size could not be requested; empty: it could, or need not be
};

std::string encode(const LoggedDecision& decision);

// Parses a line of a log: a decision's observation, or one that stands alone. Nothing: it is JSON
// of another kind. Errors: kInvalidArgument (names the problem).
Result<std::optional<Observation>> parse_observation(std::string_view line);

}  // namespace ffdl::scaling
