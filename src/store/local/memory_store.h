#pragma once

#include <memory>
#include <set>

#include "base/mutex.h"
#include "ffdl/store.h"
#include "store/local/state.h"

namespace ffdl::store {

// A store in this object. Leases end when a call checks them, or waits for it.
class MemoryStore final : public Store {
 public:
  explicit MemoryStore(Runtime& runtime) : runtime_(runtime) {}

  Result<Entry> get(std::string_view key) override;
  Result<std::vector<Entry>> list(std::string_view prefix) override;
  Result<Revision> put(std::string_view key, std::string_view value, LeaseId lease) override;
  Result<Revision> compare_and_put(std::string_view key, Revision expected, std::string_view value,
                                   LeaseId lease) override;
  Status remove(std::string_view key) override;
  Result<Revision> wait_change(std::string_view prefix, Revision after, Time deadline) override;
  Result<LeaseId> grant_lease(Duration ttl) override;
  Status keep_alive(LeaseId lease) override;
  Status end_lease(LeaseId lease) override;

 private:
  // Shared, as a thread that changes the store sets events after it has released the mutex. A
  // waiting thread may have left by then.
  using Waiters = std::set<std::shared_ptr<Event>>;

  // Runs `change(state, now)` and wakes the waiting threads.
  template <class Change>
  auto apply(Change&& change);

  Runtime& runtime_;
  base::Mutex mutex_;
  State state_ FFDL_GUARDED_BY(mutex_);
  Waiters waiters_ FFDL_GUARDED_BY(mutex_);
};

}  // namespace ffdl::store
