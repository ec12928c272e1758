#pragma once

#include <utility>

#include "base/mutex.h"
#include "ffdl/status.h"

namespace ffdl::comm {

// Coordinates run() and abort() of a back end. The first failure stays. No operation succeeds after
// an abort. An abort returns when no operation runs any more.
// Threads: enter() and leave() from one at a time, the rest from any.
class OperationGate {
 public:
  // Begins an operation. Returns the first failure if there was one; then leave() is not called.
  Status enter() {
    base::MutexLock lock(mutex_);
    if (failure_.ok()) running_ = true;
    return failure_;
  }

  // Ends the operation with `status`. Returns the status to report: an earlier end() wins.
  Status leave(Status status) {
    base::MutexLock lock(mutex_);
    running_ = false;
    if (failure_.ok()) failure_ = std::move(status);
    ended_.notify_all();
    return failure_;
  }

  // Ensures that no operation runs afterwards. `stop()` must end the running one.
  template <class Stop>
  void end(Status why, Stop&& stop) {
    {
      base::MutexLock lock(mutex_);
      if (failure_.ok()) failure_ = std::move(why);
    }
    stop();
    base::MutexLock lock(mutex_);
    while (running_) ended_.wait(mutex_);
  }

  bool running() {
    base::MutexLock lock(mutex_);
    return running_;
  }

 private:
  base::Mutex mutex_;
  base::Condition ended_;
  bool running_ FFDL_GUARDED_BY(mutex_) = false;
  Status failure_ FFDL_GUARDED_BY(mutex_);  // the first one; nothing runs after it
};

}  // namespace ffdl::comm
