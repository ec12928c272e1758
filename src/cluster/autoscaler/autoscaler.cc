#include "cluster/autoscaler/autoscaler.h"

#include <algorithm>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "cluster/autoscaler/autoscaler_records.h"
#include "cluster/autoscaler/decide_allocations.h"
#include "cluster/autoscaler/snapshot.h"
#include "ffdl/cluster/autoscaler.h"
#include "ffdl/launch/running_job.h"

namespace ffdl {
namespace {

using cluster::Answer;
using cluster::JobFacts;
using cluster::Snapshot;

// The wait between checks for the end, the lease and room. A quarter of whole seconds would be
// zero.
constexpr Duration kLook = Duration(base::kNodeHeartbeat) / 4;

class Autoscaler {
 public:
  Autoscaler(Store& store, Runtime& runtime, const AutoscalerOptions& options)
      : store_(store), runtime_(runtime), options_(options) {}

  void run(const StopToken& stop) {
    std::string reason;
    while (!stop.stop_requested()) {
      const Status done = turn();
      if (!done.ok() && done.message() != reason) {
        base::log_warning("autoscale: {}; trying again", done.message());
      }
      reason = done.message();
      if (!done.ok()) runtime_.make_event()->wait_until(runtime_.now() + base::kStoreRetry);
    }
    if (lease_ == kNoLease) return;
    const Status ended = store_.end_lease(lease_);  // it ends by itself otherwise
    if (!ended.ok()) base::log_warning("autoscale: {}", ended.message());
  }

 private:
  // Reads the store once, and decides if anything has changed or the interval is over.
  Status turn() {
    FFDL_ASSIGN_OR_RETURN(const bool is_mine, keep_lease());
    if (!is_mine) {  // stand by, until the other's lease ends
      const auto changed =
          store_.wait_change(cluster::kAutoscaler, standing_by_since_, runtime_.now() + kLook);
      if (changed.ok()) standing_by_since_ = *changed;
      return changed.status().code() == StatusCode::kTimeout ? Status() : changed.status();
    }
    const auto changed = store_.wait_change(cluster::kPrefix, seen_, runtime_.now() + kLook);
    const bool has_changed = changed.ok();
    if (!has_changed && changed.status().code() != StatusCode::kTimeout) return changed.status();
    if (!has_changed && is_settled_ && runtime_.now() < next_) return {};
    FFDL_RETURN_IF_ERROR(decide());
    if (has_changed) seen_ = *changed;
    next_ = runtime_.now() + options_.interval;
    return {};
  }

  // Renews the lease. Returns true if this autoscaler decides.
  Result<bool> keep_lease() {
    if (lease_ != kNoLease && runtime_.now() < next_renewal_) return is_mine_;
    if (lease_ != kNoLease) {
      const Status kept = store_.keep_alive(lease_);
      if (kept.code() == StatusCode::kNotFound) lease_ = kNoLease;
      if (!kept.ok() && lease_ != kNoLease) return kept;
    }
    if (lease_ == kNoLease) {
      is_mine_ = false;
      FFDL_ASSIGN_OR_RETURN(lease_, store_.grant_lease(base::kNodeLease));
    }
    if (!is_mine_) {
      const auto put = store_.compare_and_put(cluster::kAutoscaler, 0, "", lease_);
      if (!put.ok() && put.status().code() != StatusCode::kConflict) return put.status();
      // If the reply to an earlier try was lost, the key may be this autoscaler's already.
      const auto holder = store_.get(cluster::kAutoscaler);
      is_mine_ = holder.ok() && holder->lease == lease_;
      if (is_mine_) seen_ = 0;
    }
    next_renewal_ = runtime_.now() + (is_mine_ ? base::kNodeHeartbeat : kLook);
    return is_mine_;
  }

  Status decide() {
    FFDL_ASSIGN_OR_RETURN(const Snapshot snapshot, cluster::take_snapshot(store_));
    FFDL_ASSIGN_OR_RETURN(const cluster::AllocationDecision decision,
                          cluster::decide_allocations(snapshot, options_));
    is_settled_ = decision.is_settled;
    FFDL_ASSIGN_OR_RETURN(const bool is_published, publish(snapshot, decision.jobs));
    if (!is_published) return {};  // another has decided meanwhile: this snapshot is too old
    for (size_t i = 0; i < snapshot.jobs.size(); ++i) {
      FFDL_RETURN_IF_ERROR(scale(snapshot.jobs[i], decision.jobs[i]));
    }
    return {};
  }

  Result<bool> publish(const Snapshot& snapshot, const std::vector<JobAllocation>& allocations) {
    std::vector<Answer> answers;
    for (size_t i = 0; i < allocations.size(); ++i) {
      answers.push_back({snapshot.jobs[i].place, allocations[i]});
    }
    if (answers == snapshot.answers) return true;
    const auto put = store_.compare_and_put(cluster::kAnswers, snapshot.answered, encode(answers));
    if (put.status().code() == StatusCode::kConflict) return false;
    FFDL_RETURN_IF_ERROR(put.status());
    for (size_t i = 0; i < allocations.size(); ++i) {
      if (snapshot.jobs[i].answer != allocations[i]) log(allocations[i]);
    }
    return true;
  }

  static void log(const JobAllocation& allocation) {
    base::log_info("autoscale: job '{}' {}: {}", allocation.name,
                   allocation.is_dropped     ? "is rejected"
                   : allocation.workers == 0 ? "waits"
                                             : fmt::format("is to have {}", allocation.workers),
                   allocation.reason);
  }

  // Scales a running job to its allocation, also after another caller has scaled it.
  Status scale(const JobFacts& job, const JobAllocation& allocation) {
    if (allocation.workers == 0 || job.wanted == 0 || job.wanted == allocation.workers) return {};
    const Status scaled = scale_job(store_, allocation.name, allocation.workers);
    if (scaled.code() == StatusCode::kNotFound) return {};  // it has just ended
    if (scaled.code() != StatusCode::kInvalidArgument) return scaled;
    // It was started for other sizes than it has asked for; it keeps its workers.
    if (complained_of_ != allocation.name) base::log_warning("autoscale: {}", scaled.message());
    complained_of_ = allocation.name;
    return {};
  }

  Store& store_;
  Runtime& runtime_;
  const AutoscalerOptions options_;
  LeaseId lease_ = kNoLease;
  bool is_mine_ = false;
  Time next_renewal_{};
  Revision standing_by_since_ = 0;
  Revision seen_ = 0;
  bool is_settled_ = true;
  Time next_{};
  std::string complained_of_;
};

}  // namespace

Status offer_workers(Store& store, std::string_view node, int workers) {
  if (node.empty() || workers < 0) {
    return base::invalid_argument("offer {} workers of node '{}': give 0 or more, and a name",
                                  workers, node);
  }
  const std::string key = cluster::key_of(cluster::kOffers, node);
  if (workers == 0) return store.remove(key);
  return store.put(key, std::to_string(workers)).status();
}

Status run_autoscaler(Store& store, Runtime& runtime, const AutoscalerOptions& options,
                      const StopToken& stop) {
  if (options.interval <= Duration::zero() || options.switch_cost < Duration::zero() ||
      options.horizon <= Duration::zero()) {
    return base::invalid_argument(
        "autoscale: an interval of {} s, switches of {} s, a horizon of {} s; give above 0, 0 or "
        "more, above 0",
        std::chrono::duration<double>(options.interval).count(),
        std::chrono::duration<double>(options.switch_cost).count(),
        std::chrono::duration<double>(options.horizon).count());
  }
  Autoscaler(store, runtime, options).run(stop);
  return Status(StatusCode::kCancelled, "autoscale: it was asked to stop");
}

Result<Allocations> read_allocations(Store& store) {
  FFDL_ASSIGN_OR_RETURN(const Snapshot snapshot, cluster::take_snapshot(store));
  Allocations all{.nodes = snapshot.nodes};
  for (const NodeWorkers& node : snapshot.nodes) all.workers += node.workers;
  for (const JobFacts& job : snapshot.jobs) {
    all.jobs.push_back(job.answer.value_or(JobAllocation{.reason = "there is no decision yet"}));
    all.jobs.back().name = job.request.name;
  }
  return all;
}

}  // namespace ffdl
