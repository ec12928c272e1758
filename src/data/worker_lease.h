#pragma once

#include <memory>
#include <string>

#include "base/mutex.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/store.h"
#include "ffdl/types.h"

namespace ffdl::data {

// A key that is there as long as a worker lives: under a lease that a task renews. Its value is the
// worker's incarnation; none while that is not known.
// Threads: one at a time; standing() from any. Blocks: as the store does.
class WorkerLease {
 public:
  // Errors: those of Store.
  static Result<std::unique_ptr<WorkerLease>> take(Store& store, Runtime& runtime, std::string key,
                                                   Duration lease);
  ~WorkerLease();
  WorkerLease(const WorkerLease&) = delete;
  WorkerLease& operator=(const WorkerLease&) = delete;

  // From here on it is renewed. A store that has lost the lease is given the key again, unless
  // somebody else's is there.
  Status begin(uint64_t incarnation);
  // Errors: kCancelled (somebody else's is there), and others that did not go away.
  Status standing() const;

 private:
  WorkerLease(Store& store, Runtime& runtime, std::string key, Duration lease)
      : store_(store), runtime_(runtime), key_(std::move(key)), duration_(lease) {}
  void run(const StopToken& stop);
  Status renew();
  Status put();

  Store& store_;
  Runtime& runtime_;
  const std::string key_;
  const Duration duration_;
  std::string value_{};       // of the task, and of begin() before it
  LeaseId lease_ = kNoLease;  // of the task while there is one
  mutable base::Mutex mutex_;
  Status over_ FFDL_GUARDED_BY(mutex_){};
  std::unique_ptr<Task> task_;  // last: it uses all of the above
};

}  // namespace ffdl::data
