#include "ffdl/replace_stragglers.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/log.h"
#include "base/mutex.h"
#include "ffdl/supervisor.h"

namespace ffdl {
namespace {

// Between two tries while another change is under way.
constexpr Duration kRetry = std::chrono::milliseconds(200);

// 3 of "worker-3", as supervisors name them.
std::optional<int> number_of(std::string_view id) {
  constexpr std::string_view kWorker = "worker-";
  if (!id.starts_with(kWorker)) return std::nullopt;
  id.remove_prefix(kWorker.size());
  int number = -1;
  const auto read = std::from_chars(id.data(), id.data() + id.size(), number);
  if (read.ec != std::errc() || read.ptr != id.data() + id.size()) return std::nullopt;
  return number;
}

}  // namespace

class StragglerReplacement::Impl {
 public:
  Impl(Store& store, const StragglerReplacementOptions& options, Runtime& runtime)
      : store_(store), options_(options), runtime_(runtime), asked_(runtime.make_event()) {}

  Status open() {
    StragglerWatchOptions watch = options_.watch;
    watch.on_straggler = [this](const Straggler& straggler) {
      if (is_first_) replace(straggler);
      if (options_.watch.on_straggler) options_.watch.on_straggler(straggler);
    };
    FFDL_ASSIGN_OR_RETURN(watch_, StragglerWatch::create(watch, runtime_));
    return {};
  }

  ~Impl() {
    if (!task_) return;
    task_->request_stop();
    asked_->set();
  }

  StragglerWatch& watch() { return *watch_; }
  const StragglerWatch& watch() const { return *watch_; }

  void world_changed(const World& world) {
    is_first_ = world.rank == 0;
    base::MutexLock lock(mutex_);
    due_.reset();  // it is another world: whoever is slow in it will be found again
  }

 private:
  void replace(const Straggler& straggler) {
    {
      base::MutexLock lock(mutex_);
      if (due_) return;  // one at a time: a change of the world begins anew
      due_ = straggler;
    }
    asked_->set();
    if (task_) return;
    task_ = runtime_.spawn("ffdl-replace", [this](const StopToken& stop) {
      Time retry_at = kNoDeadline;
      while (true) {
        asked_->wait_until(retry_at);
        asked_->reset();  // before the look for the end, which is set after that was asked for
        if (stop.stop_requested()) return;
        retry_at = try_to_replace() ? kNoDeadline : runtime_.now() + kRetry;
      }
    });
  }

  // False: it is to be tried again.
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
    base::log_warning("straggler '{}' of job '{}': {}; it stays", due->member.id, options_.job,
                      outcome.message());
    base::MutexLock lock(mutex_);
    due_.reset();
    return true;
  }

  Status replace_now(const Straggler& due) {
    const std::string& id = due.member.id;
    const auto number = number_of(id);
    if (!number) return base::invalid_argument("replace it: 'ffdl run' has not started it");
    FFDL_ASSIGN_OR_RETURN(const int to, migrate_worker(store_, options_.job, *number, std::nullopt,
                                                       DuringChange::kRefuse));
    base::log_info(
        "straggler '{}' of job '{}': {:.2f} times the median in {} steps, up to step {}; worker-{} "
        "takes over",
        id, options_.job, due.factor, due.steps, due.step, to);
    return {};
  }

  Store& store_;
  const StragglerReplacementOptions options_;
  Runtime& runtime_;
  const std::unique_ptr<Event> asked_;  // somebody is to be replaced, or it is the end
  bool is_first_ = false;               // of its world: the one who asks
  std::unique_ptr<StragglerWatch> watch_;
  base::Mutex mutex_;
  std::optional<Straggler> due_ FFDL_GUARDED_BY(mutex_);
  std::unique_ptr<Task> task_;
};

StragglerReplacement::StragglerReplacement(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StragglerReplacement::~StragglerReplacement() = default;

Result<std::unique_ptr<StragglerReplacement>> StragglerReplacement::create(
    Store& store, const StragglerReplacementOptions& options, Runtime& runtime) {
  auto impl = std::make_unique<Impl>(store, options, runtime);
  FFDL_RETURN_IF_ERROR(impl->open());
  return std::unique_ptr<StragglerReplacement>(new StragglerReplacement(std::move(impl)));
}

std::vector<Straggler> StragglerReplacement::stragglers() const {
  return std::as_const(*impl_).watch().stragglers();
}
size_t StragglerReplacement::record_bytes() const {
  return std::as_const(*impl_).watch().record_bytes();
}
void StragglerReplacement::describe(std::span<std::byte> record) {
  impl_->watch().describe(record);
}
void StragglerReplacement::applied(uint64_t step, const StepRecords& records) {
  impl_->watch().applied(step, records);
}
void StragglerReplacement::world_changed(const World& world) {
  impl_->world_changed(world);
  impl_->watch().world_changed(world);
}
void StragglerReplacement::stable(uint64_t step) { impl_->watch().stable(step); }
std::vector<std::byte> StragglerReplacement::save() const {
  return std::as_const(*impl_).watch().save();
}
Status StragglerReplacement::restore(std::span<const std::byte> bytes) {
  return impl_->watch().restore(bytes);
}

}  // namespace ffdl
