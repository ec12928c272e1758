#pragma once

#include <memory>
#include <string>

#include "base/mutex.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "ffdl/store.h"
#include "ffdl/types.h"

namespace ffdl::data {

// A key that exists while a worker lives: a task renews its lease. The value is the worker's
// incarnation, or empty before that is known.
// Threads: one at a time; life_status() from any. Blocks: as the store does.
class WorkerLease {
 public:
  // Errors: those of Store.
  static Result<std::unique_ptr<WorkerLease>> take(Store& store, Runtime& runtime, std::string key,
                                                   Duration lease);
  ~WorkerLease();
  WorkerLease(const WorkerLease&) = delete;
  WorkerLease& operator=(const WorkerLease&) = delete;

  // Starts the renewals. If the store has lost the lease, the key is put again, unless another life
  // has put it.
  Status begin(uint64_t incarnation);
  // Errors: kCancelled (another life has the key, or this process's launcher has ended).
  Status life_status() const;

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
  std::string value_{};       // written by begin() before the task starts, then the task's
  LeaseId lease_ = kNoLease;  // the task's while it runs
  mutable base::Mutex mutex_;
  Status over_ FFDL_GUARDED_BY(mutex_){};
  std::unique_ptr<Task> task_;  // last: it uses all of the above
};

}  // namespace ffdl::data
