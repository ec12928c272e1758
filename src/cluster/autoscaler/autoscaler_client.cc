#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "cluster/autoscaler/autoscaler_records.h"
#include "ffdl/cluster/autoscaler.h"

namespace ffdl {

class AutoscalerClient::Impl {
 public:
  Impl(Store& store, Runtime& runtime, std::string_view job, Duration interval)
      : store_(store),
        runtime_(runtime),
        job_(job),
        interval_(interval),
        stopping_(runtime.make_event()) {}

  ~Impl() {
    if (keeper_ != nullptr) keeper_->request_stop();
    stopping_->set();
  }

  Status start() {
    keeper_ = runtime_.spawn("ffdl-job-link", [this](const StopToken& stop) { listen(stop); });
    return keeper_ ? Status() : base::no_thread("ffdl-job-link");
  }

  JobAllocation wanted() const {
    base::MutexLock lock(mutex_);
    return wanted_;
  }

 private:
  void listen(const StopToken& stop) {
    std::string reason;
    while (!stop.stop_requested()) {
      const Status done = ask();
      if (!done.ok() && done.message() != reason) {
        base::log_warning("job '{}': {}; trying again", job_, done.message());
      }
      reason = done.message();
      stopping_->wait_until(runtime_.now() + interval_);
    }
  }

  Status ask() {
    const auto entry = store_.get(cluster::kAnswers);
    if (entry.status().code() == StatusCode::kNotFound) return {};
    FFDL_RETURN_IF_ERROR(entry.status());
    if (entry->revision == answered_) return {};
    FFDL_ASSIGN_OR_RETURN(const auto answers, cluster::parse_answers(entry->value));
    answered_ = entry->revision;
    const auto mine = std::find_if(answers.begin(), answers.end(), [&](const cluster::Answer& one) {
      return one.allocation.name == job_;
    });
    base::MutexLock lock(mutex_);
    wanted_ = {};
    if (mine != answers.end()) wanted_ = mine->allocation;
    return {};
  }

  Store& store_;
  Runtime& runtime_;
  const std::string job_;
  const Duration interval_;
  Revision answered_ = 0;  // used by the keeper task only
  mutable base::Mutex mutex_;
  JobAllocation wanted_ FFDL_GUARDED_BY(mutex_);
  const std::unique_ptr<Event> stopping_;
  std::unique_ptr<Task> keeper_;
};

Result<std::unique_ptr<AutoscalerClient>> AutoscalerClient::open(Store& store, Runtime& runtime,
                                                                 std::string_view job,
                                                                 Duration interval) {
  if (job.empty() || interval <= Duration::zero()) {
    return base::invalid_argument(
        "link job '{}' each {} s to the autoscaler: give its name, and an interval above 0", job,
        std::chrono::duration<double>(interval).count());
  }
  auto impl = std::make_unique<Impl>(store, runtime, job, interval);
  FFDL_RETURN_IF_ERROR(impl->start());
  return std::unique_ptr<AutoscalerClient>(new AutoscalerClient(std::move(impl)));
}

AutoscalerClient::AutoscalerClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AutoscalerClient::~AutoscalerClient() = default;

JobAllocation AutoscalerClient::wanted() const { return impl_->wanted(); }

Status publish_speeds(Store& store, std::string_view job, std::span<const StepMeasurement> speeds,
                      LeaseId lease) {
  if (job.empty()) return base::invalid_argument("report the speed of job '': give its name");
  return store.put(cluster::key_of(cluster::kSpeeds, job), cluster::encode(speeds), lease).status();
}

Result<std::vector<StepMeasurement>> read_speeds(Store& store, std::string_view job) {
  FFDL_ASSIGN_OR_RETURN(const Entry entry, store.get(cluster::key_of(cluster::kSpeeds, job)));
  return cluster::parse_speeds(entry.value);
}

}  // namespace ffdl
