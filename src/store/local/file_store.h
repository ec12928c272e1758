#pragma once

#include <memory>
#include <string>
#include <utility>

#include "ffdl/store.h"
#include "store/local/state.h"

namespace ffdl::store {

// A store in a folder, for the processes of one host. Each call locks the folder's file `lock`,
// reads the file `state`, and replaces it whole if something changed. A process that is killed
// leaves the old or the new state, and the kernel drops its lock.
class FileStore final : public Store {
 public:
  static Result<std::unique_ptr<Store>> open(const std::string& folder, Runtime& runtime,
                                             const StoreOptions& options);

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
  // Identifies the clock that leases are measured with.
  struct Clock {
    std::string boot;
    Duration offset;  // of this process's clock from the one that all processes share
  };

  FileStore(std::string folder, Clock clock, Runtime& runtime, const StoreOptions& options)
      : folder_(std::move(folder)),
        clock_(std::move(clock)),
        runtime_(runtime),
        options_(options) {}

  // Returns a descriptor that holds the lock until it is closed.
  Result<int> lock() const;
  Result<int> wait_for_lock(const std::string& path) const;
  // Runs `change(state, now)` on the state of the folder, which it may change.
  template <class Change>
  auto apply(Change&& change) -> decltype(change(std::declval<State&>(), Time()));

  const std::string folder_;
  const Clock clock_;
  Runtime& runtime_;
  const StoreOptions options_;
};

}  // namespace ffdl::store
