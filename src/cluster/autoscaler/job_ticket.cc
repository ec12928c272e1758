#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "cluster/autoscaler/autoscaler_records.h"
#include "ffdl/cluster/autoscaler.h"

namespace ffdl {

class JobTicket::Impl {
 public:
  Impl(Store& store, Runtime& runtime, const JobRequest& request)
      : store_(store),
        runtime_(runtime),
        record_{request},
        key_(cluster::key_of(cluster::kRequests, request.name)),
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
                              "queue job '{}': a job of this name exists; end that one, or wait "
                              "{} s if it was killed, or use another name",
                              name(), base::kNodeLease / std::chrono::seconds(1));
    }
    record_.place = *put;
    keeper_ = runtime_.spawn("ffdl-job-ticket", [this](const StopToken& stop) { keep(stop); });
    if (keeper_) return {};
    static_cast<void>(store_.end_lease(lease_).ok());  // it ends by itself otherwise
    return base::no_thread("ffdl-job-ticket");
  }

  Result<JobAllocation> wait_until_admitted(Time deadline) {
    Revision seen = 0;
    while (true) {
      FFDL_ASSIGN_OR_RETURN(seen, store_.wait_change(cluster::kAnswers, seen, deadline));
      const auto entry = store_.get(cluster::kAnswers);
      if (entry.status().code() == StatusCode::kNotFound) continue;
      FFDL_RETURN_IF_ERROR(entry.status());
      FFDL_ASSIGN_OR_RETURN(const auto answers, cluster::parse_answers(entry->value));
      const JobAllocation given = answer_in(answers);
      if (given.workers > 0) return given;
      if (given.is_dropped) {
        return base::make_error(
            StatusCode::kExhausted,
            "queue job '{}': it was rejected: {}; try again later, or with a smaller minimum size",
            name(), given.reason);
      }
    }
  }

 private:
  // Returns nothing if there is no answer, or one to an older life of this job.
  JobAllocation answer_in(const std::vector<cluster::Answer>& answers) const {
    for (const cluster::Answer& answer : answers) {
      if (answer.allocation.name == name() && answer.place == record_.place) {
        return answer.allocation;
      }
    }
    return {};
  }

  const std::string& name() const { return record_.request.name; }

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

  // Renews the lease. If it has ended meanwhile, the request is put again, with its old place.
  Status renew() {
    const Status kept = store_.keep_alive(lease_);
    if (kept.code() != StatusCode::kNotFound) return kept;
    FFDL_ASSIGN_OR_RETURN(lease_, store_.grant_lease(base::kNodeLease));
    return store_.compare_and_put(key_, 0, encode(record_), lease_).status();
  }

  Store& store_;
  Runtime& runtime_;
  cluster::RequestRecord record_;
  const std::string key_;
  LeaseId lease_ = kNoLease;  // used by open(), then by the keeper, then by the destructor
  const std::unique_ptr<Event> stopping_;
  std::unique_ptr<Task> keeper_;
};

Result<std::unique_ptr<JobTicket>> JobTicket::enter(Store& store, Runtime& runtime,
                                                    const JobRequest& request) {
  FFDL_RETURN_IF_ERROR(cluster::check_queued(request));
  auto impl = std::make_unique<Impl>(store, runtime, request);
  FFDL_RETURN_IF_ERROR(impl->open());
  return std::unique_ptr<JobTicket>(new JobTicket(std::move(impl)));
}

JobTicket::JobTicket(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
JobTicket::~JobTicket() = default;

Result<JobAllocation> JobTicket::wait_until_admitted(Time deadline) {
  return impl_->wait_until_admitted(deadline);
}

}  // namespace ffdl
