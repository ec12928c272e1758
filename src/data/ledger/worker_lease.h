#pragma once

#include <memory>
#include <optional>
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
  // has put it. Errors: those of Store; after take_again() also kCancelled (another life has the
  // key).
  Status begin(uint64_t incarnation);
  // Ends the renewals and the lease, and so removes the key. May be called again after an error.
  // Errors: those of Store and of life_status().
  Status give_up();
  // Takes a new lease after give_up(), for the worker's next life, and puts the key if its revision
  // is still `expected`; 0: if it is absent. After an error call give_up() first.
  // Errors: those of Store, but kUnavailable if another life was faster.
  Status take_again(Revision expected);
  // Errors: kCancelled (another life has the key, or this process's launcher has ended).
  Status life_status() const;

 private:
  WorkerLease(Store& store, Runtime& runtime, std::string key, Duration lease)
      : store_(store), runtime_(runtime), key_(std::move(key)), duration_(lease) {}
  void run(const StopToken& stop);
  Status renew();
  Status put(std::optional<Revision> expected);
  Status lost_key() const;
  Status took_too_long() const;

  Store& store_;
  Runtime& runtime_;
  const std::string key_;
  const Duration duration_;
  std::string value_{};       // written by begin() before the task starts, then the task's
  LeaseId lease_ = kNoLease;  // the task's while it runs
  std::optional<Revision> again_{};  // of the key, as take_again() has put it
  mutable base::Mutex mutex_;
  Status over_ FFDL_GUARDED_BY(mutex_){};
  std::unique_ptr<Task> task_;  // last: it uses all of the above
};

}  // namespace ffdl::data
