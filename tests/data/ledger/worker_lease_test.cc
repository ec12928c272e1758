#include "data/ledger/worker_lease.h"

#include <gtest/gtest.h>

#include <functional>

#include "sim/sim_runtime.h"
#include "store/local/memory_store.h"
#include "support/status_matchers.h"

namespace ffdl::data {
namespace {

using namespace std::chrono_literals;

// Runs in simulated time, where a lease ends without a real wait.
class WorkerLeaseTest : public ::testing::Test {
 protected:
  void run(const std::function<void(store::MemoryStore& store, sim::SimNode& node)>& body) {
    const std::string stuck = runtime_.run([&] {
      sim::SimNode& node = runtime_.make_node("node");
      store::MemoryStore store(node);
      body(store, node);
    });
    EXPECT_EQ(stuck, "");
  }

  sim::Stacks stacks_;
  sim::SimRuntime runtime_{1, stacks_};
};

TEST_F(WorkerLeaseTest, TheKeyIsThereAsLongAsTheWorkerLives) {
  run([&](auto& store, auto& node) {
    ASSERT_OK_AND_ASSIGN(auto lease, WorkerLease::take(store, node, "k", 1s));
    EXPECT_EQ(store.get("k")->value, "");
    ASSERT_OK(lease->begin(7));
    runtime_.sleep(1min);
    EXPECT_EQ(store.get("k")->value, "7");
    EXPECT_OK(lease->life_status());
    lease.reset();
    EXPECT_FAILS(store.get("k"), StatusCode::kNotFound, "'k'");
  });
}

TEST_F(WorkerLeaseTest, ALifeThatNeverBeginsEndsWithItsLease) {
  run([&](auto& store, auto& node) {
    ASSERT_OK_AND_ASSIGN(auto lease, WorkerLease::take(store, node, "k", 1s));
    runtime_.sleep(2s);
    EXPECT_FAILS(store.get("k"), StatusCode::kNotFound, "'k'");
    EXPECT_FAILS(lease->begin(1), StatusCode::kUnavailable, "longer than the lease of 1000 ms");
  });
}

TEST_F(WorkerLeaseTest, ALeaseThatTheStoreLostIsTakenAnew) {
  run([&](auto& store, auto& node) {
    ASSERT_OK_AND_ASSIGN(auto lease, WorkerLease::take(store, node, "k", 1s));
    ASSERT_OK(lease->begin(7));
    ASSERT_OK(store.end_lease(store.get("k")->lease));
    runtime_.sleep(1s);
    EXPECT_EQ(store.get("k")->value, "7");
    EXPECT_OK(lease->life_status());
  });
}

TEST_F(WorkerLeaseTest, WhoLostItToAnotherLifeIsOver) {
  run([&](auto& store, auto& node) {
    ASSERT_OK_AND_ASSIGN(auto lease, WorkerLease::take(store, node, "k", 1s));
    ASSERT_OK(lease->begin(7));
    ASSERT_OK(store.end_lease(store.get("k")->lease));
    ASSERT_OK(store.put("k", "8", kNoLease));
    runtime_.sleep(1s);
    EXPECT_FAILS(lease->life_status(), StatusCode::kCancelled, "another life has the key");
    lease.reset();
    EXPECT_EQ(store.get("k")->value, "8");
  });
}

TEST_F(WorkerLeaseTest, TheNextLifeTakesTheKeyAgain) {
  run([&](auto& store, auto& node) {
    ASSERT_OK_AND_ASSIGN(auto lease, WorkerLease::take(store, node, "k", 1s));
    ASSERT_OK(lease->begin(7));
    ASSERT_OK(lease->give_up());
    EXPECT_FAILS(store.get("k"), StatusCode::kNotFound, "'k'");
    ASSERT_OK(lease->take_again(0));
    EXPECT_EQ(store.get("k")->value, "");
    ASSERT_OK(lease->begin(8));
    runtime_.sleep(1min);
    EXPECT_EQ(store.get("k")->value, "8");
    EXPECT_OK(lease->life_status());

    ASSERT_OK(lease->give_up());
    ASSERT_OK(lease->take_again(0));
    runtime_.sleep(2s);
    EXPECT_FAILS(lease->begin(9), StatusCode::kUnavailable, "longer than the lease of 1000 ms");
  });
}

TEST_F(WorkerLeaseTest, TheNextLifeLeavesTheKeyOfAnotherAlone) {
  run([&](auto& store, auto& node) {
    ASSERT_OK_AND_ASSIGN(auto lease, WorkerLease::take(store, node, "k", 1s));
    ASSERT_OK(lease->begin(7));
    ASSERT_OK(lease->give_up());
    ASSERT_OK(store.put("k", "8", kNoLease));
    EXPECT_FAILS(lease->take_again(0), StatusCode::kUnavailable, "has changed since it was read");
    ASSERT_OK(lease->give_up());
    ASSERT_OK(lease->take_again(store.get("k")->revision));
    ASSERT_OK(store.put("k", "", kNoLease));
    EXPECT_FAILS(lease->begin(9), StatusCode::kCancelled, "another life has the key");
    EXPECT_EQ(store.get("k")->value, "");
  });
}

}  // namespace
}  // namespace ffdl::data
