#pragma once

#include <utility>

#include "base/mutex.h"
#include "ffdl/status.h"

namespace ffdl::comm {

// What run() and abort() of a back end have to agree on: the first failure stays, no ok comes after
// an abort, and who aborts leaves when no operation runs any more.
// Threads: enter() and leave() from one at a time, the rest from any.
class OperationGate {
 public:
  // An operation begins; the first failure if there was one, and then leave() is not called.
  Status enter() {
    base::MutexLock lock(mutex_);
    if (failure_.ok()) running_ = true;
    return failure_;
  }

  // It has ended with `status`. What it is to return: an end() that came meanwhile wins.
  Status leave(Status status) {
    base::MutexLock lock(mutex_);
    running_ = false;
    if (failure_.ok()) failure_ = std::move(status);
    ended_.notify_all();
    return failure_;
  }

  // Nothing runs afterwards. `stop()` must end what runs now.
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
