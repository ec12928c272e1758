#pragma once

#include <optional>
#include <string>

#include "ffdl/scaling/elastic_policy.h"

namespace ffdl::scaling {

// The state that is kept between decisions.
struct SteadyState {
  std::optional<WallTime> changed_at{};  // none: never
  int direction = 0;                     // of the last proposal: 1 more, -1 fewer, 0 neither
  int times = 0;                         // consecutive proposals in this direction

  bool operator==(const SteadyState&) const = default;
};

struct SteadyDecision {
  int workers = 0;       // the size that the job should have now
  int proposed = 0;      // by the policy
  std::string reason{};  // of the policy, and why its proposal is not followed, if so
  SteadyState state{};   // for the next decision, if this one is carried out

  bool operator==(const SteadyDecision&) const = default;
};

// Calls the policy, and applies the bounds, the cooldown and the hysteresis. Pure.
SteadyDecision steady_decide(const ElasticPolicy& policy, const SteadyOptions& options,
                             const Observation& observation, const SteadyState& state);

}  // namespace ffdl::scaling
