#include "ffdl/policy_follower.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mutex.h"
#include "ffdl/autoscaler.h"
#include "ffdl/step_meter.h"
#include "ffdl/supervisor.h"
#include "steer/records.h"
#include "steer/speed_memory.h"

namespace ffdl {
namespace {

// For the end.
constexpr Duration kFollowerLook = std::chrono::milliseconds(100);

}  // namespace

class PolicyFollower::Impl {
 public:
  Impl(Store& store, Runtime& runtime, const ElasticPolicy& policy,
       const PolicyFollowerOptions& options, Revision seen)
      : store_(store), runtime_(runtime), policy_(policy), options_(options), seen_(seen) {}

  Status open_log() {
    if (options_.log_file.empty()) return {};
    log_.open(options_.log_file, std::ios::app);
    if (log_) return {};
    return base::make_error(
        StatusCode::kUnavailable,
        "follow a policy: write the log '{}': it cannot be opened; give another",
        options_.log_file);
  }

  void start() {
    task_ = runtime_.spawn("ffdl-policy", [this](const StopToken& stop) {
      const auto never = runtime_.make_event();
      while (!stop.stop_requested()) {
        const Status done = turn();
        complain(done);
        if (!done.ok()) never->wait_until(runtime_.now() + base::kStoreRetry);
      }
    });
  }

  PolicyFollowerStats stats() const {
    base::MutexLock lock(mutex_);
    return stats_;
  }

 private:
  // What stays the same is told once.
  void complain(const Status& done) {
    const std::string reason(done.ok() ? "" : done.message());
    if (!reason.empty() && reason != complained_of_) {
      base::log_warning("policy of job '{}': {}; trying again", options_.job, reason);
    }
    complained_of_ = reason;
  }

  Status turn() {
    const Time look_until = runtime_.now() + kFollowerLook;
    if (runtime_.now() < next_) {
      runtime_.make_event()->wait_until(std::min(look_until, next_));
      return {};
    }
    auto read = wait_measurement(store_, options_.job, seen_, look_until);
    if (read.status().code() == StatusCode::kTimeout) return {};
    FFDL_RETURN_IF_ERROR(read.status());
    seen_ = read->revision;
    const WallTime now = options_.clock();
    speeds_.add(read->measurement, now);
    FFDL_ASSIGN_OR_RETURN(const RunStatus run, read_run(store_, options_.job));
    const auto wanted = static_cast<int>(run.wanted_workers.size());
    // It has ended, or is on its way to another size.
    if (run.nodes.empty() || wanted != read->measurement.workers) return {};
    next_ = runtime_.now() + options_.interval;
    return decide(read->measurement, run.nodes.front(), now);
  }

  Status decide(const Measurement& measured, const NodeStatus& bounds, WallTime now) {
    steer::LoggedDecision logged{.at = now, .job = options_.job};
    logged.observation = steer::observe(measured, speeds_, now);
    FFDL_ASSIGN_OR_RETURN(logged.observation.idle_workers,
                          count_idle_workers(store_, options_.job));
    SteadyOptions steady = options_.steady;
    steady.min_workers = std::clamp(steady.min_workers, bounds.min_workers, bounds.max_workers);
    steady.max_workers = std::clamp(steady.max_workers, bounds.min_workers, bounds.max_workers);
    const SteadyDecision decision = steady_decide(policy_, steady, logged.observation, now, state_);
    logged.proposed = decision.proposed;
    logged.workers = decision.workers;
    logged.reason = decision.reason;
    const bool is_change = decision.workers != measured.workers;
    Status asked;
    if (is_change) {
      asked = scale_job(store_, options_.job, decision.workers, DuringChange::kRefuse);
    }
    if (asked.ok()) state_ = decision.state;
    logged.refused = asked.message();
    if (log_.is_open()) log_ << steer::encode(logged) << '\n' << std::flush;
    {
      base::MutexLock lock(mutex_);
      ++stats_.decisions;
      if (is_change && asked.ok()) ++stats_.changes;
    }
    if (is_change && asked.ok()) {
      base::log_info("policy of job '{}': {} workers instead of {}: {}", options_.job,
                     decision.workers, measured.workers, decision.reason);
    }
    // Workers still come or go: the next measurement is decided on.
    return asked.code() == StatusCode::kUnavailable ? Status() : asked;
  }

  Store& store_;
  Runtime& runtime_;
  const ElasticPolicy& policy_;
  const PolicyFollowerOptions options_;
  Revision seen_;  // of the measurement that was looked at last
  std::ofstream log_;
  Time next_{};
  steer::SpeedMemory speeds_;
  SteadyState state_;
  std::string complained_of_;
  mutable base::Mutex mutex_;
  PolicyFollowerStats stats_ FFDL_GUARDED_BY(mutex_);
  std::unique_ptr<Task> task_;
};

PolicyFollower::PolicyFollower(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PolicyFollower::~PolicyFollower() = default;

Result<std::unique_ptr<PolicyFollower>> PolicyFollower::start(
    Store& store, Runtime& runtime, const ElasticPolicy& policy,
    const PolicyFollowerOptions& options) {
  FFDL_RETURN_IF_ERROR(check_steady(options.steady));
  if (options.interval < Duration::zero() || !options.clock) {
    return base::invalid_argument(
        "follow a policy: an interval of {} s, or no clock; give 0 or more, and one",
        std::chrono::duration<double>(options.interval).count());
  }
  // What an earlier run of this name has told is not about this one.
  const auto old = store.get(steer::measured_key(options.job));
  if (!old.ok() && old.status().code() != StatusCode::kNotFound) return old.status();
  auto impl = std::make_unique<Impl>(store, runtime, policy, options,
                                     old.ok() ? old->revision : Revision{0});
  FFDL_RETURN_IF_ERROR(impl->open_log());
  impl->start();
  return std::unique_ptr<PolicyFollower>(new PolicyFollower(std::move(impl)));
}

PolicyFollowerStats PolicyFollower::stats() const { return impl_->stats(); }

Result<std::optional<int>> count_idle_workers(Store& store, std::string_view job) {
  FFDL_ASSIGN_OR_RETURN(const Allocations all, read_allocations(store));
  if (all.workers == 0) return std::optional<int>();
  int idle = all.workers;
  bool is_among = false;
  for (const JobAllocation& one : all.jobs) {
    idle -= one.workers;
    is_among |= one.job == job;
  }
  if (is_among) return std::optional(idle);
  FFDL_ASSIGN_OR_RETURN(const RunStatus run, read_run(store, job));
  return std::optional(idle - static_cast<int>(run.wanted_workers.size()));
}

}  // namespace ffdl
