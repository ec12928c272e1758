#include <sys/random.h>
#include <time.h>

#include "base/mutex.h"
#include "base/process.h"
#include "base/thread.h"
#include "ffdl/runtime.h"

namespace ffdl {
namespace {

class SystemEvent final : public Event {
 public:
  void set() override {
    base::MutexLock lock(mutex_);
    set_ = true;
    condition_.notify_all();
  }
  void reset() override {
    base::MutexLock lock(mutex_);
    set_ = false;
  }
  bool wait_until(Time deadline) override {
    base::MutexLock lock(mutex_);
    while (!set_) {
      if (!condition_.wait_until(mutex_, deadline)) break;
    }
    return set_;
  }

 private:
  base::Mutex mutex_;
  base::Condition condition_;
  bool set_ FFDL_GUARDED_BY(mutex_) = false;
};

class SystemTask final : public Task {
 public:
  explicit SystemTask(base::Thread thread) : thread_(std::move(thread)) {}
  void request_stop() override { thread_.request_stop(); }

 private:
  base::Thread thread_;
};

class SystemRuntime final : public Runtime {
 public:
  Time now() override { return std::chrono::steady_clock::now(); }
  Time boottime() override {
    timespec now{};
    if (::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return this->now();
    return Time(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
  }
  std::string process_mark() override { return base::mark_of_this_process(); }
  bool has_ended(std::string_view process_mark) override {
    return base::has_process_ended(process_mark);
  }
  uint64_t random() override {
    uint64_t value = 0;
    // The kernel returns so few bytes completely and without a descriptor, once its pool is
    // initialised.
    while (::getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
    }
    return value;
  }
  std::unique_ptr<Event> make_event() override { return std::make_unique<SystemEvent>(); }
  std::unique_ptr<Task> spawn(std::string name, std::function<void(StopToken)> body) override {
    auto thread = base::Thread::start(name, [body = std::move(body)](StopToken stop) {
      base::wake_promptly();
      body(std::move(stop));
    });
    if (!thread.ok()) return nullptr;
    return std::make_unique<SystemTask>(std::move(thread).value());
  }
};

}  // namespace

Runtime& system_runtime() {
  static SystemRuntime runtime;
  return runtime;
}

}  // namespace ffdl
