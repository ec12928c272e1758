#pragma once

#include <functional>

#include "ffdl/store.h"

namespace ffdl::comm {

// A store whose waits call `look` (CommunicatorOptions::look) now and then, and end with what it
// says. Borrows both.
class LookingStore final : public Store {
 public:
  LookingStore(Store& store, const std::function<Status()>& look) : store_(store), look_(look) {}

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

 private:
  Store& store_;
  const std::function<Status()>& look_;
};

}  // namespace ffdl::comm
