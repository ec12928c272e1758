#include <algorithm>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "ffdl/autoscaler.h"
#include "ffdl/placed_plan.h"
#include "jobs/records.h"

namespace ffdl {
namespace {

Status check_demand(const JobDemand& demand) {
  const bool is_name =
      !demand.job.empty() && std::all_of(demand.job.begin(), demand.job.end(),
                                         [](char c) { return c > ' ' && c < '\x7f' && c != '/'; });
  if (!is_name) {
    return base::invalid_argument(
        "queue job '{}': it is no name; use letters, digits and signs but '/'", demand.job);
  }
  // The planner knows what makes sense; of one number of workers there may be several, which lie
  // otherwise.
  if (demand.sizes.empty()) {
    return base::invalid_argument("queue job '{}': it has no size; give at least one", demand.job);
  }
  for (const SizeOption& size : demand.sizes) {
    const JobRequest request{.name = demand.job, .sizes = {size}};
    FFDL_RETURN_IF_ERROR(plan_jobs(std::span(&request, 1), 0).status());
    FFDL_RETURN_IF_ERROR(plan_placed_jobs(std::span(&request, 1), {}).status());
  }
  return {};
}

}  // namespace

class JobTicket::Impl {
 public:
  Impl(Store& store, Runtime& runtime, const JobDemand& demand)
      : store_(store),
        runtime_(runtime),
        record_{demand},
        key_(jobs::key_of(jobs::kDemands, demand.job)),
        stopping_(runtime.make_event()) {}

  ~Impl() {
    if (keeper_ == nullptr) return;
    keeper_->request_stop();
    stopping_->set();
    keeper_.reset();
    const Status ended = store_.end_lease(lease_);  // it ends by itself otherwise
    if (!ended.ok()) base::log_warning("job '{}': {}", name(), ended.message());
  }

  Status open() {
    FFDL_ASSIGN_OR_RETURN(lease_, store_.grant_lease(base::kNodeLease));
    const auto put = store_.compare_and_put(key_, 0, encode(record_), lease_);
    if (!put.ok()) {
      FFDL_RETURN_IF_ERROR(store_.end_lease(lease_));
      if (put.status().code() != StatusCode::kConflict) return put.status();
      return base::make_error(StatusCode::kConflict,
                              "queue job '{}': a job of this name is there; end that one, or wait "
                              "{} s if it was killed, or use another name",
                              name(), base::kNodeLease / std::chrono::seconds(1));
    }
    record_.place = *put;
    keeper_ = runtime_.spawn("ffdl-job-ticket", [this](const StopToken& stop) { keep(stop); });
    return {};
  }

  Result<AdmittedJob> wait_until_admitted(Time deadline) {
    Revision seen = 0;
    while (true) {
      FFDL_ASSIGN_OR_RETURN(seen, store_.wait_change(jobs::kAnswers, seen, deadline));
      const auto entry = store_.get(jobs::kAnswers);
      if (entry.status().code() == StatusCode::kNotFound) continue;
      FFDL_RETURN_IF_ERROR(entry.status());
      FFDL_ASSIGN_OR_RETURN(const auto answers, jobs::parse_answers(entry->value));
      const JobAllocation given = answer_in(answers);
      if (given.workers > 0) return AdmittedJob{given.workers, given.batch};
      if (given.is_dropped) {
        return base::make_error(StatusCode::kExhausted,
                                "queue job '{}': it was turned away: {}; try again later, or with "
                                "a smaller least size",
                                name(), given.reason);
      }
    }
  }

 private:
  // Nothing where there is none, or one to an older life of this job.
  JobAllocation answer_in(const std::vector<jobs::Answer>& answers) const {
    for (const jobs::Answer& answer : answers) {
      if (answer.allocation.job == name() && answer.place == record_.place) {
        return answer.allocation;
      }
    }
    return {};
  }

  const std::string& name() const { return record_.demand.job; }

  void keep(const StopToken& stop) {
    std::string reason;
    while (!stop.stop_requested()) {
      const Status kept = renew();
      if (!kept.ok() && kept.message() != reason) {
        base::log_warning("job '{}': {}; trying again", name(), kept.message());
      }
      reason = kept.message();
      stopping_->wait_until(runtime_.now() + base::kNodeHeartbeat);
    }
  }

  // Where the lease has ended meanwhile the demand is put again, with its old place.
  Status renew() {
    const Status kept = store_.keep_alive(lease_);
    if (kept.code() != StatusCode::kNotFound) return kept;
    FFDL_ASSIGN_OR_RETURN(lease_, store_.grant_lease(base::kNodeLease));
    return store_.compare_and_put(key_, 0, encode(record_), lease_).status();
  }

  Store& store_;
  Runtime& runtime_;
  jobs::DemandRecord record_;
  const std::string key_;
  LeaseId lease_ = kNoLease;  // of open(), then of the keeper, then of the destructor
  const std::unique_ptr<Event> stopping_;
  std::unique_ptr<Task> keeper_;
};

Result<std::unique_ptr<JobTicket>> JobTicket::enter(Store& store, Runtime& runtime,
                                                    const JobDemand& demand) {
  FFDL_RETURN_IF_ERROR(check_demand(demand));
  auto impl = std::make_unique<Impl>(store, runtime, demand);
  FFDL_RETURN_IF_ERROR(impl->open());
  return std::unique_ptr<JobTicket>(new JobTicket(std::move(impl)));
}

JobTicket::JobTicket(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
JobTicket::~JobTicket() = default;

Result<AdmittedJob> JobTicket::wait_until_admitted(Time deadline) {
  return impl_->wait_until_admitted(deadline);
}

}  // namespace ffdl
