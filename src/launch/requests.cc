#include "launch/requests.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "base/errors.h"
#include "base/limits.h"
#include "launch/launch_records.h"
#include "launch/wanted_workers.h"

namespace ffdl {
namespace launch {
namespace {

// Returns the first non-empty result of `look` over all workers, with the worker's id; empty: there
// is none. `look` receives the worker and whether it is wanted.
template <class Look>
std::string first_change(const RunStatus& run, const Look& look) {
  for (const NodeStatus& node : run.nodes) {
    for (const WorkerStatus& worker : node.workers) {
      const bool is_wanted = place_of(run.wanted_workers, number_of(worker.id)) >= 0;
      const std::string_view change = look(worker, is_wanted);
      if (!change.empty()) return fmt::format("'{}' is to {}", worker.id, change);
    }
  }
  return {};
}

std::string_view start_or_end(const WorkerStatus& worker, bool is_wanted) {
  const std::string_view phase = worker.phase;
  if (is_wanted) return phase == "idle" || phase == "paused" || phase == "stopping" ? "start" : "";
  return phase == "running" || phase == "stopping" ? "end" : "";
}

std::string_view join_or_leave(const WorkerStatus& worker, bool is_wanted, const World& world) {
  const bool is_in_world =
      std::any_of(world.members.begin(), world.members.end(),
                  [&](const Member& member) { return member.id == worker.id; });
  if (is_wanted) return worker.phase == "running" && !is_in_world ? "join" : "";
  return is_in_world ? "leave" : "";
}

}  // namespace

std::string change_under_way(const RunStatus& run, const JobStatus& job) {
  std::string change = first_change(run, start_or_end);
  if (!change.empty() || job.world.generation == 0) return change;
  if (job.world.phase == Phase::kForming) {
    return fmt::format("generation {} is forming", job.world.generation);
  }
  return first_change(run, [&](const WorkerStatus& worker, bool is_wanted) {
    return join_or_leave(worker, is_wanted, job.world);
  });
}

}  // namespace launch

namespace {

using launch::WantedWorkers;
using Change = std::function<Result<WantedWorkers>(const RunStatus&)>;

Status check_is_settled(Store& store, std::string_view job, const RunStatus& run,
                        std::string_view doing) {
  FFDL_ASSIGN_OR_RETURN(const JobStatus status, read_job(store, job));
  const std::string change = launch::change_under_way(run, status);
  if (change.empty()) return {};
  return base::make_error(StatusCode::kUnavailable,
                          "{}: another change is under way, {}; try again when that is over", doing,
                          change);
}

// Replaces the set of wanted workers. `doing` begins messages.
Status change_wanted(Store& store, std::string_view job, std::string_view doing,
                     DuringChange during, const Change& change) {
  const std::string key = launch::Keys(job).wanted();
  for (int attempt = 0; attempt < base::kContentionMax; ++attempt) {
    FFDL_ASSIGN_OR_RETURN(const launch::FoundRun found, launch::find_run(store, job));
    const RunStatus& run = found.run;
    if (run.nodes.empty()) {
      return base::make_error(StatusCode::kNotFound,
                              "{}: it is not running; start it with 'ffdl run'", doing);
    }
    if (during == DuringChange::kRefuse)
      FFDL_RETURN_IF_ERROR(check_is_settled(store, job, run, doing));
    FFDL_ASSIGN_OR_RETURN(const WantedWorkers next, change(run));
    const auto put = store.compare_and_put(key, found.wanted, launch::encode(next));
    if (put.ok()) return {};
    if (put.status().code() != StatusCode::kConflict) return put.status();
  }
  return base::make_error(StatusCode::kUnavailable,
                          "{}: other processes changed the job at the same time; try again", doing);
}

// Returns the worker that takes that worker's place.
Result<int> find_target(const RunStatus& run, std::string_view doing, int from,
                        std::optional<int> to) {
  if (launch::place_of(run.wanted_workers, from) < 0) {
    std::vector<int> numbers;
    for (const WantedWorker& worker : run.wanted_workers) numbers.push_back(worker.number);
    return base::invalid_argument("{}: worker {} is not wanted; name one of {}", doing, from,
                                  fmt::join(numbers, ", "));
  }
  std::optional<int> idle;
  std::string phase = "on no node of the job";
  for (const NodeStatus& node : run.nodes) {
    for (const WorkerStatus& worker : node.workers) {
      const int number = launch::number_of(worker.id);
      if (number == to) phase = worker.phase;
      if (worker.phase != "idle" || launch::place_of(run.wanted_workers, number) >= 0) continue;
      if (number == to) return number;
      if (!idle || number < *idle) idle = number;
    }
  }
  if (to) {
    const bool is_wanted = launch::place_of(run.wanted_workers, *to) >= 0;
    return base::invalid_argument("{}: worker {} is {}; name an idle worker, or none", doing, *to,
                                  is_wanted ? "wanted itself" : phase);
  }
  if (idle) return *idle;
  return base::invalid_argument(
      "{}: no worker is idle; reduce the number of workers with 'ffdl scale', or start the job "
      "with a larger MAX of --workers MIN:MAX",
      doing);
}

}  // namespace

Status scale_job(Store& store, std::string_view job, int workers, DuringChange during) {
  const std::string doing = fmt::format("scale job '{}'", job);
  return change_wanted(
      store, job, doing, during, [&](const RunStatus& run) -> Result<WantedWorkers> {
        const NodeStatus& node = run.nodes.front();
        if (workers < node.min_workers || workers > node.max_workers) {
          return base::invalid_argument(
              "{}: {} workers are requested, but the job was started for {} to {}; request one of "
              "these numbers, or start the job with another --workers MIN:MAX",
              doing, workers, node.min_workers, node.max_workers);
        }
        return launch::scaled(run.wanted_workers, workers);
      });
}

Result<int> migrate_worker(Store& store, std::string_view job, int from, std::optional<int> to,
                           DuringChange during) {
  const std::string doing = fmt::format("migrate worker {} of job '{}'", from, job);
  int target = 0;
  FFDL_RETURN_IF_ERROR(
      change_wanted(store, job, doing, during, [&](const RunStatus& run) -> Result<WantedWorkers> {
        FFDL_ASSIGN_OR_RETURN(target, find_target(run, doing, from, to));
        return launch::moved(run.wanted_workers, from, target);
      }));
  return target;
}

}  // namespace ffdl
