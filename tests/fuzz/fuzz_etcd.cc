// Reads arbitrary bytes as answers of etcd. They are refused as corrupt, or are valid.
#include <string_view>

#include "base/check.h"
#include "store/etcd/messages.h"

namespace {

using namespace ffdl;
using namespace ffdl::store;

template <class T>
bool is_read(const Result<T>& result) {
  FFDL_CHECK(result.ok() || result.status().code() == StatusCode::kCorrupt,
             "the only thing wrong with it");
  return result.ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto range = etcd::read_range(text); is_read(range)) {
    FFDL_CHECK(range->newest > 0, "a store begins with revision 1");
    for (const Entry& entry : range->entries) {
      FFDL_CHECK(!entry.key.empty() && entry.revision > 0, "an entry was put");
    }
  }
  if (const auto change = etcd::read_change(text); is_read(change)) {
    FFDL_CHECK(*change > 0, "a store begins with revision 1");
  }
  if (const auto lease = etcd::read_granted(text); is_read(lease)) {
    FFDL_CHECK(*lease != kNoLease, "a lease has a number");
  }
  is_read(etcd::read_compared(text));
  is_read(etcd::read_kept(text));
  is_read(etcd::read_watched(text));
  is_read(etcd::read_version(text));
  FFDL_CHECK(!etcd::read_failure(text, "ask").ok(), "a failure is one");
  return 0;
}
