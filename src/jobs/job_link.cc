#include "ffdl/job_link.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mutex.h"
#include "jobs/records.h"

namespace ffdl {
namespace {

constexpr uint64_t kMeanOf = 100;  // steps: older ones fade
constexpr size_t kSizesMax = 64;   // that are remembered: those that were measured last

bool is_same_size(const MeasuredSpeed& a, const MeasuredSpeed& b) {
  return a.workers == b.workers && a.batch == b.batch;
}

}  // namespace

class JobLink::Impl {
 public:
  Impl(Store& store, Runtime& runtime, std::string_view job, Duration interval)
      : store_(store),
        runtime_(runtime),
        job_(job),
        key_(jobs::key_of(jobs::kSpeeds, job)),
        interval_(interval),
        stopping_(runtime.make_event()) {}

  ~Impl() {
    if (keeper_ != nullptr) keeper_->request_stop();
    stopping_->set();
    keeper_.reset();
    if (lease_ != kNoLease) static_cast<void>(store_.end_lease(lease_));  // it ends by itself too
  }

  void start() {
    keeper_ = runtime_.spawn("ffdl-job-link", [this](const StopToken& stop) { keep(stop); });
  }

  void report(const MeasuredSpeed& step) {
    base::MutexLock lock(mutex_);
    const bool is_first = !present_ || !is_same_size(*present_, step);
    present_ = step;
    if (is_first || step.step_s <= 0) return;
    const auto known =
        std::find_if(speeds_.begin(), speeds_.end(),
                     [&](const MeasuredSpeed& other) { return is_same_size(other, step); });
    MeasuredSpeed speed = step;
    if (known != speeds_.end()) {
      speed = *known;
      speeds_.erase(known);
      ++speed.steps;
      const auto weight = static_cast<double>(std::min(speed.steps, kMeanOf));
      speed.step_s += (step.step_s - speed.step_s) / weight;
    }
    speeds_.push_back(speed);
    if (speeds_.size() > kSizesMax) speeds_.erase(speeds_.begin());
    has_news_ = true;
  }

  AdmittedJob wanted() const {
    base::MutexLock lock(mutex_);
    return wanted_;
  }

 private:
  void keep(const StopToken& stop) {
    std::string reason;
    while (!stop.stop_requested()) {
      Status done = talk();
      if (!done.ok() && done.message() != reason) {
        base::log_warning("job '{}': {}; trying again", job_, done.message());
      }
      reason = done.message();
      stopping_->wait_until(runtime_.now() + interval_);
    }
  }

  Status talk() {
    FFDL_RETURN_IF_ERROR(ask());
    return tell();
  }

  Status ask() {
    const auto entry = store_.get(jobs::kAnswers);
    if (entry.status().code() == StatusCode::kNotFound) return {};
    FFDL_RETURN_IF_ERROR(entry.status());
    if (entry->revision == answered_) return {};
    FFDL_ASSIGN_OR_RETURN(const auto answers, jobs::parse_answers(entry->value));
    answered_ = entry->revision;
    const auto mine = std::find_if(answers.begin(), answers.end(), [&](const jobs::Answer& one) {
      return one.allocation.job == job_;
    });
    base::MutexLock lock(mutex_);
    wanted_ = {};
    if (mine != answers.end()) wanted_ = {mine->allocation.workers, mine->allocation.batch};
    return {};
  }

  // Under a lease, so that a later job of this name does not inherit it.
  Status tell() {
    std::vector<MeasuredSpeed> speeds;
    bool has_news = false;
    {
      base::MutexLock lock(mutex_);
      speeds = speeds_;
      has_news = std::exchange(has_news_, false);
    }
    const Status told = tell(speeds, has_news);
    if (told.ok()) return {};
    base::MutexLock lock(mutex_);
    has_news_ = has_news_ || has_news;
    return told;
  }

  Status tell(std::vector<MeasuredSpeed> speeds, bool has_news) {
    if (lease_ != kNoLease) {
      const Status kept = store_.keep_alive(lease_);
      if (kept.code() != StatusCode::kNotFound) FFDL_RETURN_IF_ERROR(kept);
      if (!kept.ok()) lease_ = kNoLease, has_news = !speeds.empty();
    }
    if (!has_news) return {};
    if (lease_ == kNoLease) {
      FFDL_RETURN_IF_ERROR(learn_of_others());
      FFDL_ASSIGN_OR_RETURN(lease_, store_.grant_lease(base::kNodeLease));
      base::MutexLock lock(mutex_);
      speeds = speeds_;
    }
    return store_.put(key_, jobs::encode(speeds), lease_).status();
  }

  Status learn_of_others() {
    const auto entry = store_.get(key_);
    if (entry.status().code() == StatusCode::kNotFound) return {};
    FFDL_RETURN_IF_ERROR(entry.status());
    FFDL_ASSIGN_OR_RETURN(auto speeds, jobs::parse_speeds(entry->value));
    base::MutexLock lock(mutex_);
    for (const MeasuredSpeed& mine : speeds_) {
      std::erase_if(speeds, [&](const MeasuredSpeed& one) { return is_same_size(one, mine); });
    }
    speeds_.insert(speeds_.begin(), speeds.begin(), speeds.end());
    return {};
  }

  Store& store_;
  Runtime& runtime_;
  const std::string job_;
  const std::string key_;
  const Duration interval_;
  LeaseId lease_ = kNoLease;  // of the keeper, then of the destructor
  Revision answered_ = 0;     // of the keeper
  mutable base::Mutex mutex_;
  std::vector<MeasuredSpeed> speeds_ FFDL_GUARDED_BY(mutex_);  // the latest at the end
  std::optional<MeasuredSpeed> present_ FFDL_GUARDED_BY(mutex_);
  bool has_news_ FFDL_GUARDED_BY(mutex_) = false;
  AdmittedJob wanted_ FFDL_GUARDED_BY(mutex_);
  const std::unique_ptr<Event> stopping_;
  std::unique_ptr<Task> keeper_;
};

Result<std::unique_ptr<JobLink>> JobLink::open(Store& store, Runtime& runtime, std::string_view job,
                                               Duration interval) {
  if (job.empty() || interval <= Duration::zero()) {
    return base::invalid_argument(
        "link job '{}' each {} s to the autoscaler: give its name, and an interval above 0", job,
        std::chrono::duration<double>(interval).count());
  }
  auto impl = std::make_unique<Impl>(store, runtime, job, interval);
  impl->start();
  return std::unique_ptr<JobLink>(new JobLink(std::move(impl)));
}

JobLink::JobLink(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
JobLink::~JobLink() = default;

void JobLink::report(int workers, int64_t batch, Duration step) {
  impl_->report({workers, batch, 1, std::chrono::duration<double>(step).count()});
}
AdmittedJob JobLink::wanted() const { return impl_->wanted(); }

}  // namespace ffdl
