#include "benchmarks/rescale/pause.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <sstream>

namespace ffdl::bench {
namespace {

double mean_of(std::span<const StepTime> steps) {
  double sum = 0;
  for (const StepTime& step : steps) sum += step.in_session_s;
  return sum / static_cast<double>(steps.size());
}

void add_excess(Pause& pause, const StepTime& step, double normal_s) {
  const double excess_ms = 1e3 * (step.in_session_s - normal_s);
  pause.stop_ms = std::max(pause.stop_ms, excess_ms);
  pause.total_ms += excess_ms;
}

}  // namespace

std::optional<Pause> pause_after(std::span<const StepTime> steps, Time request,
                                 const PauseRule& rule) {
  const auto undisturbed = static_cast<size_t>(rule.undisturbed);
  const auto first = static_cast<size_t>(
      std::ranges::find_if(steps, [&](const StepTime& step) { return step.end >= request; }) -
      steps.begin());
  if (first < undisturbed || first == steps.size()) return std::nullopt;
  size_t change = steps.size();  // the first step of the last world
  while (change > 0 && steps[change - 1].generation == steps.back().generation) --change;
  const size_t end = change + static_cast<size_t>(rule.after);
  if (change <= first || steps.size() < end + undisturbed) return std::nullopt;
  const int members_before = steps[first].members;
  const double before_s = mean_of(steps.subspan(first - undisturbed, undisturbed));
  const double after_s = mean_of(steps.subspan(end, undisturbed));
  Pause pause;
  for (const StepTime& step : steps.subspan(first, end - first)) {
    add_excess(pause, step, step.members == members_before ? before_s : after_s);
  }
  return pause;
}

std::optional<Pause> pause_of_nothing(std::span<const StepTime> steps, const PauseRule& rule) {
  const auto undisturbed = static_cast<size_t>(rule.undisturbed);
  const auto window = static_cast<size_t>(rule.after) + 1;
  if (steps.size() < undisturbed || undisturbed <= window) return std::nullopt;
  const auto calm = steps.last(undisturbed);
  const double normal_s = mean_of(calm.subspan(window));
  Pause pause;
  for (const StepTime& step : calm.first(window)) add_excess(pause, step, normal_s);
  return pause;
}

std::string write_steps(const std::vector<StepTime>& steps) {
  std::string line;
  for (const StepTime& step : steps) {
    line += fmt::format("{} {:.9f} {} {} ", step.end.time_since_epoch().count(), step.in_session_s,
                        step.generation, step.members);
  }
  return line;
}

std::vector<StepTime> read_steps(const std::string& line) {
  std::vector<StepTime> steps;
  std::istringstream words(line);
  int64_t end_ns = 0;
  for (StepTime step; words >> end_ns >> step.in_session_s >> step.generation >> step.members;) {
    step.end = Time(std::chrono::nanoseconds(end_ns));
    steps.push_back(step);
  }
  return steps;
}

}  // namespace ffdl::bench
