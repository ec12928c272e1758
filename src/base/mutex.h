#pragma once

#include <condition_variable>
#include <mutex>

#include "ffdl/types.h"

// Attributes for Clang's thread-safety analysis (preset 'clang'). Other compilers ignore them.
#if defined(__clang__)
#define FFDL_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define FFDL_THREAD_ATTRIBUTE(x)
#endif
#define FFDL_CAPABILITY(x) FFDL_THREAD_ATTRIBUTE(capability(x))
#define FFDL_SCOPED_CAPABILITY FFDL_THREAD_ATTRIBUTE(scoped_lockable)
#define FFDL_GUARDED_BY(x) FFDL_THREAD_ATTRIBUTE(guarded_by(x))
#define FFDL_REQUIRES(...) FFDL_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define FFDL_ACQUIRE(...) FFDL_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define FFDL_RELEASE(...) FFDL_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define FFDL_NO_THREAD_ANALYSIS FFDL_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace ffdl::base {

// Wraps std::mutex with the attributes of the analysis. For threads of one process only.
class FFDL_CAPABILITY("mutex") Mutex {
 public:
  void lock() FFDL_ACQUIRE() { mutex_.lock(); }
  void unlock() FFDL_RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class FFDL_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) FFDL_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() FFDL_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class Condition {
 public:
  void notify_all() { condition_.notify_all(); }
  void wait(Mutex& mutex) FFDL_REQUIRES(mutex) { condition_.wait(mutex); }
  // Returns false if the deadline passed first. A deadline of kNoDeadline waits without a bound.
  bool wait_until(Mutex& mutex, Time deadline) FFDL_REQUIRES(mutex) {
    if (deadline == kNoDeadline) {
      condition_.wait(mutex);
      return true;
    }
    return condition_.wait_until(mutex, deadline) == std::cv_status::no_timeout;
  }

 private:
  std::condition_variable_any condition_;
};

}  // namespace ffdl::base
