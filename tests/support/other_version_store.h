#pragma once

#include <string_view>
#include <vector>

#include "membership/keys.h"
#include "membership/membership_records.h"
#include "support/forwarding_store.h"

namespace ffdl::testing {

// Shows a job's record of the world as one of the next version of the protocol. So the process that
// uses this store is a member of another version.
class OtherVersionStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  Result<Entry> get(std::string_view key) override {
    FFDL_ASSIGN_OR_RETURN(Entry entry, inner_.get(key));
    change(entry);
    return entry;
  }
  Result<std::vector<Entry>> list(std::string_view prefix) override {
    FFDL_ASSIGN_OR_RETURN(std::vector<Entry> entries, inner_.list(prefix));
    for (Entry& entry : entries) change(entry);
    return entries;
  }

 private:
  static void change(Entry& entry) {
    if (entry.key != membership::Keys("job").world()) return;
    auto record = membership::parse_world(entry.value).value();
    ++record.protocol;
    entry.value = encode(record);
  }
};

}  // namespace ffdl::testing
