#pragma once

#include <atomic>
#include <string_view>

#include "support/forwarding_store.h"

namespace ffdl::testing {

// Forwards all calls to another store, and counts those of a ledger.
class CountingStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  Result<Revision> compare_and_put(std::string_view key, Revision expected, std::string_view value,
                                   LeaseId lease) override {
    ++puts;
    auto put = inner_.compare_and_put(key, expected, value, lease);
    if (put.status().code() == StatusCode::kConflict) ++conflicts;
    return put;
  }
  Result<std::vector<Entry>> list(std::string_view prefix) override {
    ++lists;
    return inner_.list(prefix);
  }

  std::atomic<int> puts = 0;  // compare-and-puts, with any outcome
  std::atomic<int> conflicts = 0;
  std::atomic<int> lists = 0;
};

}  // namespace ffdl::testing
