#pragma once

#include <string_view>
#include <vector>

#include "ffdl/store.h"

namespace ffdl::testing {

// A store that forwards to another one. Tests override one or two of its calls.
class ForwardingStore : public Store {
 public:
  explicit ForwardingStore(Store& inner) : inner_(inner) {}

  Result<Entry> get(std::string_view key) override { return inner_.get(key); }
  Result<std::vector<Entry>> list(std::string_view prefix) override { return inner_.list(prefix); }
  Result<Revision> put(std::string_view key, std::string_view value, LeaseId lease) override {
    return inner_.put(key, value, lease);
  }
  Result<Revision> compare_and_put(std::string_view key, Revision expected, std::string_view value,
                                   LeaseId lease) override {
    return inner_.compare_and_put(key, expected, value, lease);
  }
  Status remove(std::string_view key) override { return inner_.remove(key); }
  Result<Revision> wait_change(std::string_view prefix, Revision after, Time deadline) override {
    return inner_.wait_change(prefix, after, deadline);
  }
  Result<LeaseId> grant_lease(Duration ttl) override { return inner_.grant_lease(ttl); }
  Status keep_alive(LeaseId lease) override { return inner_.keep_alive(lease); }
  Status end_lease(LeaseId lease) override { return inner_.end_lease(lease); }
  std::string local_address() const override { return inner_.local_address(); }

 protected:
  Store& inner_;
};

}  // namespace ffdl::testing
