#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <map>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/resource_limit.h"
#include "base/thread.h"
#include "ffdl/cluster/autoscaler.h"
#include "ffdl/launch/running_job.h"
#include "ffdl/scaling/elastic_policy.h"
#include "scaling/measurement.h"
#include "scaling/scaling_records.h"
#include "scaling/speed_memory.h"
#include "scaling/steady_decide.h"

namespace ffdl {
namespace {

// The wait between checks for the end.
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
    return base::system_failure(
        fmt::format("follow a policy: write the log '{}'", options_.log_file), errno,
        "give another");
  }

  Status start() {
    task_ = runtime_.spawn("ffdl-policy", [this](const StopToken& stop) {
      const auto never = runtime_.make_event();
      while (!stop.stop_requested()) {
        const Status done = turn();
        complain(done);
        if (!done.ok()) never->wait_until(runtime_.now() + base::kStoreRetry);
      }
    });
    return task_ ? Status() : base::no_thread("ffdl-policy");
  }

  uint64_t decisions() const { return decisions_.load(std::memory_order_relaxed); }
  uint64_t changes() const { return changes_.load(std::memory_order_relaxed); }

 private:
  // Logs a failure once until it changes.
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
    const auto read = scaling::wait_measurement(store_, options_.job, seen_, look_until);
    if (read.status().code() == StatusCode::kTimeout) return {};
    FFDL_RETURN_IF_ERROR(read.status());
    seen_ = read->revision;
    const WallTime now = options_.clock();
    speeds_.add(*read, now);
    FFDL_ASSIGN_OR_RETURN(const RunStatus run, read_run(store_, options_.job));
    const auto wanted = static_cast<int>(run.wanted_workers.size());
    // It has ended, or its size is changing.
    if (run.nodes.empty() || wanted != read->workers) return {};
    next_ = runtime_.now() + options_.interval;
    return decide(*read, run.nodes.front(), now);
  }

  Status decide(const scaling::Measurement& measured, const NodeStatus& bounds, WallTime now) {
    scaling::LoggedDecision logged{.job = options_.job};
    logged.observation = scaling::observe(measured, speeds_, now);
    FFDL_ASSIGN_OR_RETURN(logged.observation.idle_workers,
                          count_idle_workers(store_, options_.job));
    SteadyOptions steady = options_.steady;
    steady.min_workers = std::clamp(steady.min_workers, bounds.min_workers, bounds.max_workers);
    steady.max_workers = std::clamp(steady.max_workers, bounds.min_workers, bounds.max_workers);
    const scaling::SteadyDecision decision =
        scaling::steady_decide(policy_, steady, logged.observation, state_);
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
    if (log_.is_open()) log_ << scaling::encode(logged) << '\n' << std::flush;
    decisions_.fetch_add(1, std::memory_order_relaxed);
    if (is_change && asked.ok()) changes_.fetch_add(1, std::memory_order_relaxed);
    if (is_change && asked.ok()) {
      base::log_info("policy of job '{}': {} workers instead of {}: {}", options_.job,
                     decision.workers, measured.workers, decision.reason);
    }
    // Workers still start or end: the next measurement causes a decision.
    return asked.code() == StatusCode::kUnavailable ? Status() : asked;
  }

  Store& store_;
  Runtime& runtime_;
  const ElasticPolicy& policy_;
  const PolicyFollowerOptions options_;
  Revision seen_;  // revision of the last measurement that was read
  std::ofstream log_;
  Time next_{};
  scaling::SpeedMemory speeds_;
  scaling::SteadyState state_;
  std::string complained_of_;
  std::atomic<uint64_t> decisions_ = 0;
  std::atomic<uint64_t> changes_ = 0;
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
        "follow a policy: the interval is {} s, or there is no clock; give an interval of 0 s or "
        "more, and a clock",
        std::chrono::duration<double>(options.interval).count());
  }
  // The measurement of an earlier run of this name is ignored.
  const auto old = store.get(scaling::measured_key(options.job));
  if (!old.ok() && old.status().code() != StatusCode::kNotFound) return old.status();
  auto impl = std::make_unique<Impl>(store, runtime, policy, options,
                                     old.ok() ? old->revision : Revision{0});
  FFDL_RETURN_IF_ERROR(impl->open_log());
  FFDL_RETURN_IF_ERROR(impl->start());
  return std::unique_ptr<PolicyFollower>(new PolicyFollower(std::move(impl)));
}

uint64_t PolicyFollower::decisions() const { return impl_->decisions(); }
uint64_t PolicyFollower::changes() const { return impl_->changes(); }

Result<std::optional<int>> count_idle_workers(Store& store, std::string_view job) {
  FFDL_ASSIGN_OR_RETURN(const Allocations all, read_allocations(store));
  if (all.workers == 0) return std::optional<int>();
  int idle = all.workers;
  bool is_among = false;
  for (const JobAllocation& one : all.jobs) {
    idle -= one.workers;
    is_among |= one.name == job;
  }
  if (is_among) return std::optional(idle);
  FFDL_ASSIGN_OR_RETURN(const RunStatus run, read_run(store, job));
  return std::optional(idle - static_cast<int>(run.wanted_workers.size()));
}

}  // namespace ffdl
