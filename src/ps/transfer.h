#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "base/mutex.h"
#include "base/thread.h"
#include "ffdl/learner.h"

namespace ffdl::ps {

// One job at a time on a thread of its own; the result waits to be taken.
template <class T>
class BackgroundCall {
 public:
  explicit BackgroundCall(const char* name)
      : thread_(name, [this](const StopToken& stop) { run(stop); }) {}
  ~BackgroundCall() {
    thread_.request_stop();
    base::MutexLock lock(mutex_);
    condition_.notify_all();
  }

  // False while an earlier call's result has not been taken.
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
  // Until no call runs; its result stays to be taken.
  void wait() {
    base::MutexLock lock(mutex_);
    while (busy_ && !result_) condition_.wait(mutex_);
  }
  // nullopt when the deadline came first.
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

// GaDei's push and pull threads: transfers beside compute.
class Transfer {
 public:
  explicit Transfer(Learner::Impl& learner) : learner_(learner) {}

  Status start_pull(PullMode mode);
  Result<Learner::Pulled> finish_pull(Time deadline);
  Status start_push(std::span<const float> gradient, SampleRange samples);
  Result<PushResult> finish_push(Time deadline);
  bool pushing() { return push_.busy(); }
  void wait_for_push() { push_.wait(); }

  // Whatever else moves weights or a gradient, on the same threads. A pull gives the version.
  Status start_pull_by(std::function<Result<uint64_t>()> pull);
  Result<uint64_t> finish_pull_by(Time deadline);
  Status start_push_by(std::function<Result<PushResult>()> push);

 private:
  Learner::Impl& learner_;
  std::vector<float> buffers_[2];
  size_t filling_ = 0;
  BackgroundCall<uint64_t> pull_{"ffdl-pull"};
  BackgroundCall<PushResult> push_{"ffdl-push"};
};

}  // namespace ffdl::ps
