#pragma once

#include <functional>

#include "ffdl/store.h"

namespace ffdl::comm {

// Wraps a store so that its waits call `check` (CommunicatorOptions::interrupt_check) regularly. A
// wait ends with the error that `check` returns. Borrows both.
class InterruptibleStore final : public Store {
 public:
  InterruptibleStore(Store& store, const std::function<Status()>& check)
      : store_(store), check_(check) {}

  Result<Entry> get(std::string_view key) override { return store_.get(key); }
  Result<std::vector<Entry>> list(std::string_view prefix) override { return store_.list(prefix); }
  Result<Revision> put(std::string_view key, std::string_view value, LeaseId lease) override {
    return store_.put(key, value, lease);
  }
  Result<Revision> compare_and_put(std::string_view key, Revision expected, std::string_view value,
                                   LeaseId lease) override {
    return store_.compare_and_put(key, expected, value, lease);
  }
  Status remove(std::string_view key) override { return store_.remove(key); }
  Result<Revision> wait_change(std::string_view prefix, Revision after, Time deadline) override;
  Result<LeaseId> grant_lease(Duration ttl) override { return store_.grant_lease(ttl); }
  Status keep_alive(LeaseId lease) override { return store_.keep_alive(lease); }
  Status end_lease(LeaseId lease) override { return store_.end_lease(lease); }
  std::string local_address() const override { return store_.local_address(); }

 private:
  Store& store_;
  const std::function<Status()>& check_;
};

}  // namespace ffdl::comm
