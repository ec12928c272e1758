#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "ffdl/launch/running_job.h"
#include "ffdl/tuning/stragglers.h"

namespace ffdl {
namespace {

// The wait between two tries while another change is under way.
constexpr Duration kRetry = std::chrono::milliseconds(200);

// Returns 3 of "worker-3", as supervisors name workers.
std::optional<int> number_of(std::string_view id) {
  constexpr std::string_view kWorker = "worker-";
  if (!id.starts_with(kWorker)) return std::nullopt;
  id.remove_prefix(kWorker.size());
  int number = -1;
  const auto read = std::from_chars(id.data(), id.data() + id.size(), number);
  if (read.ec != std::errc() || read.ptr != id.data() + id.size()) return std::nullopt;
  return number;
}

class ReplacingWatch final : public StragglerWatch {
 public:
  ReplacingWatch(Store& store, std::string_view job, const StragglerOptions& options,
                 Runtime& runtime)
      : store_(store),
        job_(job),
        options_(options),
        runtime_(runtime),
        asked_(runtime.make_event()) {}

  Status open() {
    StragglerOptions watch = options_;
    watch.on_straggler = [this](const Straggler& straggler) {
      if (is_first_) replace(straggler);
      if (options_.on_straggler) options_.on_straggler(straggler);
    };
    FFDL_ASSIGN_OR_RETURN(watch_, StragglerWatch::create(watch, runtime_));
    return {};
  }

  ~ReplacingWatch() override {
    if (!task_) return;
    task_->request_stop();
    asked_->set();
  }

  std::vector<Straggler> stragglers() const override { return watch_->stragglers(); }

  size_t record_bytes() const override { return watch_->record_bytes(); }
  void write_record(std::span<std::byte> record) override { watch_->write_record(record); }
  void applied(uint64_t step, const StepRecords& records) override {
    watch_->applied(step, records);
  }
  void world_changed(const World& world) override {
    is_first_ = world.rank == 0;
    {
      base::MutexLock lock(mutex_);
      due_.reset();  // a slow member of the new world is detected again
    }
    watch_->world_changed(world);
  }
  void stable(uint64_t step) override { watch_->stable(step); }
  std::vector<std::byte> save() const override { return watch_->save(); }
  Status restore(std::span<const std::byte> bytes) override { return watch_->restore(bytes); }

 private:
  void replace(const Straggler& straggler) {
    {
      base::MutexLock lock(mutex_);
      if (due_) return;  // one at a time: a change of the world starts over
      due_ = straggler;
    }
    asked_->set();
    if (task_) return;
    task_ = runtime_.spawn("ffdl-replace", [this](const StopToken& stop) {
      Time retry_at = kNoDeadline;
      while (true) {
        asked_->wait_until(retry_at);
        asked_->reset();  // before the check for the end, which is set after the request to stop
        if (stop.stop_requested()) return;
        retry_at = try_to_replace() ? kNoDeadline : runtime_.now() + kRetry;
      }
    });
    if (task_) return;
    base::log_warning("straggler '{}' of job '{}': {}; the straggler is not replaced",
                      straggler.member.id, job_, base::no_thread("ffdl-replace").message());
    base::MutexLock lock(mutex_);
    due_.reset();
  }

  // Returns false if it must be tried again.
  bool try_to_replace() {
    std::optional<Straggler> due;
    {
      base::MutexLock lock(mutex_);
      due = due_;
    }
    if (!due) return true;
    const Status outcome = replace_now(*due);
    if (outcome.code() == StatusCode::kUnavailable) return false;
    if (outcome.ok()) return true;  // it is due until the world has changed
    base::log_warning("straggler '{}' of job '{}': {}; the straggler is not replaced",
                      due->member.id, job_, outcome.message());
    base::MutexLock lock(mutex_);
    due_.reset();
    return true;
  }

  Status replace_now(const Straggler& due) {
    const std::string& id = due.member.id;
    const auto number = number_of(id);
    if (!number)
      return base::invalid_argument("replace it: 'ffdl run' has not started this member");
    FFDL_ASSIGN_OR_RETURN(
        const int to, migrate_worker(store_, job_, *number, std::nullopt, DuringChange::kRefuse));
    base::log_info(
        "straggler '{}' of job '{}': {:.2f} times the median in {} steps, up to step {}; worker-{} "
        "takes over",
        id, job_, due.factor, due.steps, due.step, to);
    return {};
  }

  Store& store_;
  const std::string job_;
  const StragglerOptions options_;
  Runtime& runtime_;
  const std::unique_ptr<Event> asked_;  // a member must be replaced, or the task must end
  bool is_first_ = false;               // rank 0 of its world, which sends the request
  std::unique_ptr<StragglerWatch> watch_;
  base::Mutex mutex_;
  std::optional<Straggler> due_ FFDL_GUARDED_BY(mutex_);
  std::unique_ptr<Task> task_;
};

}  // namespace

Result<std::unique_ptr<StragglerWatch>> StragglerWatch::create_replacing(
    Store& store, std::string_view job, const StragglerOptions& options, Runtime& runtime) {
  auto watch = std::make_unique<ReplacingWatch>(store, job, options, runtime);
  FFDL_RETURN_IF_ERROR(watch->open());
  return std::unique_ptr<StragglerWatch>(std::move(watch));
}

}  // namespace ffdl
