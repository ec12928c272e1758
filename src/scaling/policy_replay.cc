#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <utility>

#include "base/errors.h"
#include "ffdl/scaling/elastic_policy.h"
#include "scaling/scaling_records.h"
#include "scaling/steady_decide.h"

namespace ffdl {
namespace {

// Samples of a step: more are rounded to this.
constexpr double kSamplesMax = 1e15;

// Returns the mean speed at each size in a trace. The time of a step is the mean of the recorded
// ones, or 1 s, and the batch is by the speed.
std::vector<StepMeasurement> speeds_of(std::span<const Observation> trace) {
  struct Sums {
    double samples_per_s = 0;
    double step_s = 0;
    int count = 0;
  };
  std::map<int, Sums> sums;
  for (const Observation& point : trace) {
    if (!(point.samples_per_s > 0)) continue;
    Sums& sum = sums[point.workers];
    sum.samples_per_s += point.samples_per_s;
    sum.step_s += point.step_s > 0 ? point.step_s : 1;
    ++sum.count;
  }
  std::vector<StepMeasurement> speeds;
  for (const auto& [workers, sum] : sums) {
    const double samples_per_s = sum.samples_per_s / sum.count;
    const double samples = std::min(samples_per_s * sum.step_s / sum.count, kSamplesMax);
    const int64_t batch = std::max<int64_t>(std::llround(samples), 1);
    speeds.push_back(
        {.workers = workers, .batch = batch, .step_s = static_cast<double>(batch) / samples_per_s});
  }
  return speeds;
}

// Counts the changes and reversals of a sequence of sizes.
class Changes {
 public:
  Changes(PolicyReplay& replay, Duration window) : replay_(replay), window_(window) {}

  void add(WallTime at, int from, int to) {
    if (from == to) return;
    const int direction = to > from ? 1 : -1;
    ++replay_.changes;
    if (direction == -last_direction_ && at - last_at_ <= window_) ++replay_.reversals;
    last_at_ = at;
    last_direction_ = direction;
  }

 private:
  PolicyReplay& replay_;
  const Duration window_;
  WallTime last_at_{};
  int last_direction_ = 0;  // none yet
};

}  // namespace

Result<std::vector<Observation>> load_policy_trace(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) {
    return base::make_error(StatusCode::kNotFound, "read '{}': no such file; check the path",
                            file.string());
  }
  std::vector<Observation> trace;
  std::string line;
  for (uint64_t number = 1; std::getline(in, line); ++number) {
    if (line.empty()) continue;
    auto seen = scaling::parse_observation(line);
    if (!seen.ok() && in.eof()) break;  // its writer was killed
    if (!seen.ok()) {
      return base::invalid_argument("read '{}': line {}: {}; give a log of decisions",
                                    file.string(), number, seen.status().message());
    }
    if (!*seen) continue;
    if (!trace.empty() && (*seen)->at < trace.back().at) {
      return base::invalid_argument(
          "read '{}': line {}: it is earlier than the line before; sort the lines by 't_s'",
          file.string(), number);
    }
    trace.push_back(*std::move(*seen));
  }
  if (trace.empty()) {
    return base::invalid_argument("read '{}': no observation; give a log of decisions",
                                  file.string());
  }
  return trace;
}

Result<PolicyReplay> replay_policy(std::span<const Observation> trace, const ElasticPolicy& policy,
                                   const SteadyOptions& steady, std::optional<int> first_workers,
                                   Duration reversal_window) {
  FFDL_RETURN_IF_ERROR(check_steady(steady));
  if (trace.empty() || reversal_window < Duration::zero() || first_workers.value_or(1) < 1) {
    return base::invalid_argument(
        "replay a policy: {} points, first_workers {}, a window of {} s; give 1 point or more, 1 "
        "worker or more, and 0 s or more",
        trace.size(), first_workers.value_or(1),
        std::chrono::duration<double>(reversal_window).count());
  }
  PolicyReplay replay;
  Changes changes(replay, reversal_window);
  const std::vector<StepMeasurement> speeds = speeds_of(trace);
  scaling::SteadyState state;
  int workers = first_workers.value_or(trace.front().workers);
  const WallTime* before = nullptr;
  for (const Observation& point : trace) {
    if (before != nullptr) {
      const double s = std::chrono::duration<double>(point.at - *before).count();
      replay.seconds += s;
      replay.worker_seconds += s * workers;
    }
    before = &point.at;
    Observation seen = point;
    seen.workers = workers;
    seen.speeds = speeds;
    seen.samples_per_s = 0;
    if (seen.idle_workers) *seen.idle_workers += point.workers - workers;
    for (const StepMeasurement& speed : speeds) {
      if (speed.workers == workers) seen.samples_per_s = speed.samples_per_s();
    }
    if (!speeds.empty() && seen.samples_per_s == 0) ++replay.unmeasured;
    const scaling::SteadyDecision decision = scaling::steady_decide(policy, steady, seen, state);
    state = decision.state;
    changes.add(point.at, workers, decision.workers);
    workers = decision.workers;
    replay.points.push_back({point.at, workers, decision.proposed, decision.reason});
  }
  return replay;
}

}  // namespace ffdl
