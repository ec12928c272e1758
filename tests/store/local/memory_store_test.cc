#include "store/local/memory_store.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

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
    waiters.emplace_back([&] { EXPECT_OK(store.wait_change("k", start, deadline_in(10s))); });
  }
  EXPECT_OK(store.put("k", "1", kNoLease));
  for (std::thread& waiter : waiters) waiter.join();
}

TEST(MemoryStore, ALeaseEndsAWaitThoughNobodyElseCalls) {
  MemoryStore store(system_runtime());
  Result<Revision> put = Revision{0};
  do {  // on a busy machine the lease may end before the put
    ASSERT_OK_AND_ASSIGN(const LeaseId lease, store.grant_lease(50ms));
    put = store.put("k", "v", lease);
  } while (put.status().code() == StatusCode::kNotFound);
  ASSERT_OK(put);
  EXPECT_OK(store.wait_change("k", *put, deadline_in(10s)));
}

}  // namespace
}  // namespace ffdl::store
