#include "ffdl/tuning/step_metrics.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <utility>

#include "base/errors.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "ffdl/cluster/autoscaler.h"
#include "scaling/batch_speeds.h"
#include "scaling/measured_steps.h"
#include "scaling/measurement.h"
#include "scaling/scaling_records.h"

namespace ffdl {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

// Returns the memory of this process; 0 if the system does not report it.
uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return file ? resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

class PublishedMetrics final : public StepMetrics {
 public:
  PublishedMetrics(Store& store, const StepMetricsOptions& options, Runtime& runtime)
      : store_(store),
        options_(options),
        runtime_(runtime),
        told_(runtime.make_event()),
        window_(options.steps, names()) {}

  ~PublishedMetrics() override {
    if (!task_) return;
    task_->request_stop();
    told_->set();
    task_.reset();
    if (lease_ != kNoLease) static_cast<void>(store_.end_lease(lease_));  // it ends by itself too
  }

  size_t record_bytes() const override {
    return sizeof(scaling::MeterWord) + 8 * options_.metrics.size();
  }

  void write_record(std::span<std::byte> record) override {
    if (std::exchange(is_memory_due_, false)) host_memory_bytes_ = resident_bytes();
    const scaling::MeterWord word{communication_s_, host_memory_bytes_};
    std::memcpy(record.data(), &word, sizeof word);
    std::byte* place = record.data() + sizeof word;
    for (const auto& [name, measure] : options_.metrics) {
      const double value = measure();
      std::memcpy(place, &value, sizeof value);
      place += sizeof value;
    }
    communication_s_ = kNothing;
    contributed_ = runtime_.now();
  }

  void averaged() override { communication_s_ = seconds(runtime_.now() - contributed_); }

  void applied(uint64_t step, const StepRecords& records) override {
    const double now_s = seconds(runtime_.now().time_since_epoch());
    if (window_.is_empty()) {
      // This step included waiting for newcomers and their loading.
      communication_s_ = kNothing;
      window_.begin(now_s);
      return;
    }
    const auto measured = window_.add(step, records, now_s);
    if (!measured) return;
    is_memory_due_ = true;
    if (is_first_) publish(*measured);
  }

  void world_changed(const World& world) override {
    is_first_ = world.rank == 0;
    is_memory_due_ = true;
    communication_s_ = kNothing;
    window_.start_anew(world.generation);
  }

  void stable(uint64_t /*step*/) override {}
  // Saves nothing: its data belongs to one world, and every member enters a world without any.
  std::vector<std::byte> save() const override { return {}; }
  Status restore(std::span<const std::byte> /*bytes*/) override { return {}; }

 private:
  static double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, measure] : options_.metrics) all.push_back(name);
    return all;
  }

  // Hands the record to the task, since the store may be slow.
  void publish(const scaling::Measurement& measured) {
    {
      base::MutexLock lock(mutex_);
      text_ = scaling::encode(measured);
      speeds_.add(measured);
    }
    told_->set();
    if (task_) return;
    task_ = runtime_.spawn("ffdl-meter", [this](const StopToken& stop) {
      while (true) {
        told_->wait_until(lease_ == kNoLease ? kNoDeadline : runtime_.now() + base::kNodeHeartbeat);
        told_->reset();  // before the check for the end, which is set after the request to stop
        if (stop.stop_requested()) return;
        complain(put());
      }
    });
    if (!task_) complain(base::no_thread("ffdl-meter"));  // the next measurement tries again
  }

  Status put() {
    std::string text;
    std::vector<StepMeasurement> speeds;
    {
      base::MutexLock lock(mutex_);
      text = std::exchange(text_, {});
      speeds = speeds_.all();
    }
    if (!text.empty()) {
      FFDL_RETURN_IF_ERROR(store_.put(scaling::measured_key(options_.job), text).status());
    }
    return put_speeds(std::move(speeds));
  }

  // Writes under a lease, so that a later job of this name does not inherit the speeds.
  Status put_speeds(std::vector<StepMeasurement> speeds) {
    if (lease_ != kNoLease) {
      const Status kept = store_.keep_alive(lease_);
      if (kept.code() == StatusCode::kNotFound) lease_ = kNoLease;
      if (!kept.ok() && lease_ != kNoLease) return kept;
    }
    if (lease_ == kNoLease) {
      if (speeds.empty()) return {};
      FFDL_ASSIGN_OR_RETURN(speeds, with_those_before());
      FFDL_ASSIGN_OR_RETURN(lease_, store_.grant_lease(base::kNodeLease));
      put_.clear();
    }
    if (speeds == put_) return {};
    FFDL_RETURN_IF_ERROR(publish_speeds(store_, options_.job, speeds, lease_));
    put_ = std::move(speeds);
    return {};
  }

  // Adds the speeds of other sizes that an earlier rank 0 of the job has published.
  Result<std::vector<StepMeasurement>> with_those_before() {
    const auto before = read_speeds(store_, options_.job);
    if (!before.ok() && before.status().code() != StatusCode::kNotFound) return before.status();
    base::MutexLock lock(mutex_);
    if (before.ok()) speeds_.learn(*before);
    return speeds_.all();
  }

  void complain(const Status& done) {
    const std::string reason(done.ok() ? "" : done.message());
    if (!reason.empty() && reason != complained_of_) {
      base::log_warning("meter of job '{}': {}; the next measurement is tried", options_.job,
                        reason);
    }
    complained_of_ = reason;
  }

  Store& store_;
  const StepMetricsOptions options_;
  Runtime& runtime_;
  const std::unique_ptr<Event> told_;  // there is a text, or the task must end
  scaling::MeasuredSteps window_;
  bool is_first_ = false;  // rank 0 of its world, which publishes
  bool is_memory_due_ = true;
  uint64_t host_memory_bytes_ = 0;
  Time contributed_{};
  double communication_s_ = kNothing;  // seconds of the last step
  base::Mutex mutex_;
  std::string text_ FFDL_GUARDED_BY(mutex_);  // the newest that was not put yet
  scaling::BatchSpeeds speeds_ FFDL_GUARDED_BY(mutex_);
  // Used by the task alone; the lease then by the destructor.
  std::string complained_of_;
  std::vector<StepMeasurement> put_;
  LeaseId lease_ = kNoLease;
  std::unique_ptr<Task> task_;
};

}  // namespace

Result<std::unique_ptr<StepMetrics>> StepMetrics::create(Store& store,
                                                         const StepMetricsOptions& options,
                                                         Runtime& runtime) {
  if (options.steps == 0) {
    return base::invalid_argument("measure steps: 'steps' is 0; give 1 or more");
  }
  for (const auto& [name, measure] : options.metrics) {
    if (!name.empty() && measure) continue;
    return base::invalid_argument("measure steps: metric '{}' has no name, or no function", name);
  }
  return std::unique_ptr<StepMetrics>(std::make_unique<PublishedMetrics>(store, options, runtime));
}

namespace scaling {

Result<Measurement> read_measurement(Store& store, std::string_view job) {
  FFDL_ASSIGN_OR_RETURN(const Entry entry, store.get(measured_key(job)));
  FFDL_ASSIGN_OR_RETURN(Measurement measurement, parse_measurement(entry.value));
  measurement.revision = entry.revision;
  return measurement;
}

Result<Measurement> wait_measurement(Store& store, std::string_view job, Revision after,
                                     Time deadline) {
  const std::string key = measured_key(job);
  Revision seen = after;
  while (true) {
    // The wait matches prefixes: another job's name may begin with this one's.
    FFDL_ASSIGN_OR_RETURN(seen, store.wait_change(key, seen, deadline));
    auto read = read_measurement(store, job);
    if (read.ok() && read->revision > after) return read;
    if (!read.ok() && read.status().code() != StatusCode::kNotFound) return read.status();
  }
}

}  // namespace scaling
}  // namespace ffdl
