#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "base/mutex.h"
#include "base/thread.h"
#include "ffdl/ps/learner.h"

namespace ffdl::ps {

// Runs one call at a time on its own thread, and keeps the result until it is taken.
template <class T>
class BackgroundCall {
 public:
  // Must be called first. Errors: kExhausted (the system refuses a thread).
  Status begin(const char* name) {
    FFDL_ASSIGN_OR_RETURN(thread_,
                          base::Thread::start(name, [this](const StopToken& stop) { run(stop); }));
    return {};
  }
  ~BackgroundCall() {
    thread_.request_stop();
    base::MutexLock lock(mutex_);
    condition_.notify_all();
  }

  // Returns false while an earlier call's result has not been taken.
  bool start(std::function<Result<T>()> call) {
    base::MutexLock lock(mutex_);
    if (busy_) return false;
    busy_ = true;
    call_ = std::move(call);
    condition_.notify_all();
    return true;
  }
  bool busy() {
    base::MutexLock lock(mutex_);
    return busy_;
  }
  // Waits until no call runs. The result can still be taken.
  void wait() {
    base::MutexLock lock(mutex_);
    while (busy_ && !result_) condition_.wait(mutex_);
  }
  // Returns nullopt if the deadline passed first.
  std::optional<Result<T>> take(Time deadline) {
    base::MutexLock lock(mutex_);
    while (!result_) {
      if (!condition_.wait_until(mutex_, deadline)) break;
    }
    if (!result_) return std::nullopt;
    std::optional<Result<T>> taken = std::move(result_);
    result_.reset();
    busy_ = false;
    return taken;
  }

 private:
  void run(const StopToken& stop) {
    base::MutexLock lock(mutex_);
    while (!stop.stop_requested()) {
      if (!call_) {
        condition_.wait(mutex_);
        continue;
      }
      const std::function<Result<T>()> call = std::move(call_);
      call_ = nullptr;
      mutex_.unlock();
      Result<T> result = call();
      mutex_.lock();
      result_ = std::move(result);
      condition_.notify_all();
    }
  }

  base::Mutex mutex_;
  base::Condition condition_;
  bool busy_ FFDL_GUARDED_BY(mutex_) = false;
  std::function<Result<T>()> call_ FFDL_GUARDED_BY(mutex_);
  std::optional<Result<T>> result_ FFDL_GUARDED_BY(mutex_);
  base::Thread thread_;  // last: it uses the fields above
};

// GaDei's push and pull threads: transfers during computation.
class Transfer {
 public:
  // Errors: kExhausted (the system refuses threads).
  static Result<std::unique_ptr<Transfer>> begin();

  // Run one pull and one push at a time. A pull returns the version of its weights.
  Status start_pull(std::function<Result<uint64_t>()> pull);
  Result<uint64_t> finish_pull(Time deadline);
  Status start_push(std::function<Result<PushResult>()> push);
  Result<PushResult> finish_push(Time deadline);

  // Errors: kInvalidArgument (one is in progress).
  Status check_no_pull();
  Status check_no_push();
  bool pushing() { return push_.busy(); }
  void wait_for_push() { push_.wait(); }

 private:
  Transfer() = default;

  BackgroundCall<uint64_t> pull_;
  BackgroundCall<PushResult> push_;
};

}  // namespace ffdl::ps
