#include "store/local/memory_store.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "support/put_under_lease.h"
#include "support/status_matchers.h"

namespace ffdl::store {
namespace {

using namespace std::chrono_literals;

// Tests only the errors that this back end alone can have. tests/conformance tests the documented
// behaviour.

TEST(MemoryStore, OneChangeEndsAllWaits) {
  MemoryStore store(system_runtime());
  ASSERT_OK_AND_ASSIGN(const Revision start, store.put("k", "0", kNoLease));
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] { EXPECT_OK(store.wait_change("k", start, deadline_in(60s))); });
  }
  EXPECT_OK(store.put("k", "1", kNoLease));
  for (std::thread& waiter : waiters) waiter.join();
}

TEST(MemoryStore, ALeaseEndsAWaitThoughNobodyElseCalls) {
  MemoryStore store(system_runtime());
  ASSERT_OK_AND_ASSIGN(const Revision put, testing::put_under_lease(store, "k", 50ms).revision);
  EXPECT_OK(store.wait_change("k", put, deadline_in(60s)));
}

}  // namespace
}  // namespace ffdl::store
