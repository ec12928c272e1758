#include "ffdl/policy_replay.h"

#include <fstream>
#include <map>
#include <utility>

#include "base/errors.h"
#include "steer/records.h"

namespace ffdl {
namespace {

// The mean speed at each size that a trace has had.
std::vector<SizeSpeed> speeds_of(std::span<const TracePoint> trace) {
  std::map<int, std::pair<double, int>> sums;
  for (const TracePoint& point : trace) {
    if (!(point.observation.samples_per_s > 0)) continue;
    auto& [sum, count] = sums[point.observation.workers];
    sum += point.observation.samples_per_s;
    ++count;
  }
  std::vector<SizeSpeed> speeds;
  for (const auto& [workers, sum] : sums) {
    speeds.push_back({workers, sum.first / sum.second, Duration::zero()});
  }
  return speeds;
}

// Counts what sizes over time tell.
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

Result<std::vector<TracePoint>> load_policy_trace(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) {
    return base::make_error(StatusCode::kNotFound, "read '{}': no such file; check the path",
                            file.string());
  }
  std::vector<TracePoint> trace;
  std::string line;
  for (uint64_t number = 1; std::getline(in, line); ++number) {
    if (line.empty()) continue;
    auto seen = steer::parse_observation(line);
    if (!seen.ok() && in.eof()) break;  // its writer was killed
    if (!seen.ok()) {
      return base::invalid_argument("read '{}': line {}: {}; give a log of decisions",
                                    file.string(), number, seen.status().message());
    }
    if (!*seen) continue;
    if (!trace.empty() && (*seen)->at < trace.back().at) {
      return base::invalid_argument(
          "read '{}': line {}: it is earlier than the one before; sort the lines by 't_s'",
          file.string(), number);
    }
    trace.push_back({(*seen)->at, std::move((*seen)->observation)});
  }
  if (trace.empty()) {
    return base::invalid_argument("read '{}': no observation; give a log of decisions",
                                  file.string());
  }
  return trace;
}

Result<PolicyReplay> replay_policy(std::span<const TracePoint> trace, const ElasticPolicy& policy,
                                   const SteadyOptions& steady, const ReplayOptions& options) {
  FFDL_RETURN_IF_ERROR(check_steady(steady));
  if (trace.empty() || options.reversal_window < Duration::zero() ||
      options.first_workers.value_or(1) < 1) {
    return base::invalid_argument(
        "replay a policy: {} points, first_workers {}, a window of {} s; give 1 or more, 1 or "
        "more, "
        "0 or more",
        trace.size(), options.first_workers.value_or(1),
        std::chrono::duration<double>(options.reversal_window).count());
  }
  PolicyReplay replay;
  Changes changes(replay, options.reversal_window);
  const std::vector<SizeSpeed> speeds = speeds_of(trace);
  SteadyState state;
  int workers = options.first_workers.value_or(trace.front().observation.workers);
  const WallTime* before = nullptr;
  for (const TracePoint& point : trace) {
    if (before != nullptr) {
      const double s = std::chrono::duration<double>(point.at - *before).count();
      replay.seconds += s;
      replay.worker_seconds += s * workers;
    }
    before = &point.at;
    Observation seen = point.observation;
    seen.workers = workers;
    seen.speeds = speeds;
    seen.samples_per_s = 0;
    if (seen.idle_workers) *seen.idle_workers += point.observation.workers - workers;
    for (const SizeSpeed& speed : speeds) {
      if (speed.workers == workers) seen.samples_per_s = speed.samples_per_s;
    }
    if (!speeds.empty() && seen.samples_per_s == 0) ++replay.unmeasured;
    const SteadyDecision decision = steady_decide(policy, steady, seen, point.at, state);
    state = decision.state;
    changes.add(point.at, workers, decision.workers);
    workers = decision.workers;
    replay.points.push_back({point.at, workers, decision.proposed, decision.reason});
  }
  return replay;
}

}  // namespace ffdl
