#include "scaling/steady_decide.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/errors.h"

namespace ffdl {
namespace {

// Returns the part of a proposal that the bounds and step_max allow.
int within(const SteadyOptions& options, int present, int proposed) {
  int size = proposed;
  if (options.step_max > 0) {
    const int64_t least = int64_t{present} - options.step_max;
    const int64_t most = int64_t{present} + options.step_max;
    size = static_cast<int>(std::clamp<int64_t>(size, least, most));
  }
  return std::clamp(size, options.min_workers, options.max_workers);
}

}  // namespace

Status check_steady(const SteadyOptions& options) {
  if (options.min_workers >= 1 && options.min_workers <= options.max_workers &&
      options.cooldown >= Duration::zero() && options.confirmations >= 1 &&
      std::isfinite(options.tolerance) && options.tolerance >= 0 && options.step_max >= 0) {
    return {};
  }
  return base::invalid_argument(
      "hold a policy: min_workers {}, max_workers {}, cooldown {} s, confirmations {}, tolerance "
      "{}, step_max {}; give 1 <= min_workers <= max_workers, 1 confirmation or more, and 0 or "
      "more "
      "otherwise",
      options.min_workers, options.max_workers,
      std::chrono::duration<double>(options.cooldown).count(), options.confirmations,
      options.tolerance, options.step_max);
}

namespace scaling {

SteadyDecision steady_decide(const ElasticPolicy& policy, const SteadyOptions& options,
                             const Observation& observation, const SteadyState& state) {
  const WallTime now = observation.at;
  const SizeDecision wanted = policy.decide(observation);
  const int present = observation.workers;
  const int size = within(options, present, wanted.workers);
  const int direction = (size > present) - (size < present);
  SteadyDecision decision = {present, wanted.workers, wanted.reason, state};
  // A clock that was set back must not lengthen a cooldown.
  if (state.changed_at && now < *state.changed_at) decision.state.changed_at = now;

  const bool is_cooling =
      decision.state.changed_at && now - *decision.state.changed_at < options.cooldown;
  const bool is_out_of_bounds = present < options.min_workers || present > options.max_workers;
  const bool is_small = std::abs(size - present) < options.tolerance * present;
  const bool is_same = direction != 0 && direction == state.direction;
  decision.state.direction = is_cooling ? 0 : direction;
  decision.state.times = is_cooling || direction == 0 ? 0 : is_same ? state.times + 1 : 1;

  const auto kept = [&](std::string why) {
    decision.reason += "; " + std::move(why);
    return decision;
  };
  if (direction == 0) {
    if (wanted.workers == present) return decision;
    return kept(fmt::format("{} is the bound", present));
  }
  if (!is_out_of_bounds) {  // no bound waits
    if (is_cooling) {
      const Duration left = options.cooldown - (now - *decision.state.changed_at);
      return kept(fmt::format("a change was made; the next one in {:.1f} s at the earliest",
                              std::chrono::duration<double>(left).count()));
    }
    if (is_small) return kept(fmt::format("{} is about the same", size));
    if (decision.state.times < options.confirmations) {
      return kept(fmt::format("seen {} of {} times", decision.state.times, options.confirmations));
    }
  }
  decision.workers = size;
  if (size != wanted.workers)
    decision.reason += fmt::format("; {} is the most that is allowed now", size);
  decision.state = {now, 0, 0};
  return decision;
}

}  // namespace scaling
}  // namespace ffdl
