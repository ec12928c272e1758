#include "ffdl/step_meter.h"

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
#include "ffdl/job_link.h"
#include "steer/batch_speeds.h"
#include "steer/measured_steps.h"
#include "steer/records.h"

namespace ffdl {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

// Of this process; 0 where the system does not say.
uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return file ? resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace

class StepMeter::Impl {
 public:
  Impl(Store& store, const StepMeterOptions& options, Runtime& runtime)
      : store_(store),
        options_(options),
        runtime_(runtime),
        told_(runtime.make_event()),
        window_(options.steps, names()) {}

  ~Impl() {
    if (!task_) return;
    task_->request_stop();
    told_->set();
    task_.reset();
    if (lease_ != kNoLease) static_cast<void>(store_.end_lease(lease_));  // it ends by itself too
  }

  size_t record_bytes() const { return sizeof(steer::MeterWord) + 8 * options_.metrics.size(); }

  void describe(std::span<std::byte> record) {
    if (std::exchange(is_memory_due_, false)) host_memory_bytes_ = resident_bytes();
    const steer::MeterWord word{communication_s_, host_memory_bytes_};
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

  void averaged() { communication_s_ = seconds(runtime_.now() - contributed_); }

  void applied(uint64_t step, const StepRecords& records) {
    const double now_s = seconds(runtime_.now().time_since_epoch());
    if (window_.is_empty()) {
      // It waited for those who came, and for what they had to load.
      communication_s_ = kNothing;
      window_.begin(now_s);
      return;
    }
    const auto measured = window_.add(step, records, now_s);
    if (!measured) return;
    is_memory_due_ = true;
    if (is_first_) publish(*measured);
  }

  void world_changed(const World& world) {
    is_first_ = world.rank == 0;
    is_memory_due_ = true;
    communication_s_ = kNothing;
    window_.start_anew(world.generation);
  }

 private:
  static double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, measure] : options_.metrics) all.push_back(name);
    return all;
  }

  // Leaves it to the task: the store may be slow.
  void publish(const Measurement& measured) {
    {
      base::MutexLock lock(mutex_);
      text_ = steer::encode(measured);
      speeds_.add(measured);
    }
    told_->set();
    if (task_) return;
    task_ = runtime_.spawn("ffdl-meter", [this](const StopToken& stop) {
      while (true) {
        told_->wait_until(lease_ == kNoLease ? kNoDeadline : runtime_.now() + base::kNodeHeartbeat);
        told_->reset();  // before the look for the end, which is set after that was asked for
        if (stop.stop_requested()) return;
        complain(put());
      }
    });
  }

  Status put() {
    std::string text;
    std::vector<MeasuredSpeed> speeds;
    {
      base::MutexLock lock(mutex_);
      text = std::exchange(text_, {});
      speeds = speeds_.all();
    }
    if (!text.empty()) {
      FFDL_RETURN_IF_ERROR(store_.put(steer::measured_key(options_.job), text).status());
    }
    return put_speeds(std::move(speeds));
  }

  // Under a lease, so that a later job of this name does not inherit them.
  Status put_speeds(std::vector<MeasuredSpeed> speeds) {
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

  // What another member of the job, rank 0 before this one, has told of other sizes.
  Result<std::vector<MeasuredSpeed>> with_those_before() {
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
  const StepMeterOptions options_;
  Runtime& runtime_;
  const std::unique_ptr<Event> told_;  // there is a text, or it is the end
  steer::MeasuredSteps window_;
  bool is_first_ = false;  // of its world: the one who tells
  bool is_memory_due_ = true;
  uint64_t host_memory_bytes_ = 0;
  Time contributed_{};
  double communication_s_ = kNothing;  // of the step before
  base::Mutex mutex_;
  std::string text_ FFDL_GUARDED_BY(mutex_);  // the newest that was not put yet
  steer::BatchSpeeds speeds_ FFDL_GUARDED_BY(mutex_);
  // Of the task alone; the lease then of the destructor.
  std::string complained_of_;
  std::vector<MeasuredSpeed> put_;
  LeaseId lease_ = kNoLease;
  std::unique_ptr<Task> task_;
};

StepMeter::StepMeter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StepMeter::~StepMeter() = default;

Result<std::unique_ptr<StepMeter>> StepMeter::create(Store& store, const StepMeterOptions& options,
                                                     Runtime& runtime) {
  if (options.steps == 0) {
    return base::invalid_argument("measure steps: 'steps' is 0; give 1 or more");
  }
  for (const auto& [name, measure] : options.metrics) {
    if (!name.empty() && measure) continue;
    return base::invalid_argument("measure steps: metric '{}' has no name, or no function", name);
  }
  auto impl = std::make_unique<Impl>(store, options, runtime);
  return std::unique_ptr<StepMeter>(new StepMeter(std::move(impl)));
}

size_t StepMeter::record_bytes() const { return impl_->record_bytes(); }
void StepMeter::describe(std::span<std::byte> record) { impl_->describe(record); }
void StepMeter::averaged() { impl_->averaged(); }
void StepMeter::applied(uint64_t step, const StepRecords& records) {
  impl_->applied(step, records);
}
void StepMeter::world_changed(const World& world) { impl_->world_changed(world); }
void StepMeter::stable(uint64_t /*step*/) {}
// All that it knows is of one world, and every member comes into a world with nothing.
std::vector<std::byte> StepMeter::save() const { return {}; }
Status StepMeter::restore(std::span<const std::byte> /*bytes*/) { return {}; }

Result<ReadMeasurement> read_measurement(Store& store, std::string_view job) {
  FFDL_ASSIGN_OR_RETURN(const Entry entry, store.get(steer::measured_key(job)));
  FFDL_ASSIGN_OR_RETURN(Measurement measurement, steer::parse_measurement(entry.value));
  return ReadMeasurement{std::move(measurement), entry.revision};
}

Result<ReadMeasurement> wait_measurement(Store& store, std::string_view job, Revision after,
                                         Time deadline) {
  const std::string key = steer::measured_key(job);
  Revision seen = after;
  while (true) {
    // Prefixes: another job's name may begin with this one's.
    FFDL_ASSIGN_OR_RETURN(seen, store.wait_change(key, seen, deadline));
    auto read = read_measurement(store, job);
    if (read.ok() && read->revision > after) return read;
    if (!read.ok() && read.status().code() != StatusCode::kNotFound) return read.status();
  }
}

}  // namespace ffdl
