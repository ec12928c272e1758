#include "elastic/session/wait_limit.h"

#include <gtest/gtest.h>

#include <memory>

#include "ffdl/store.h"
#include "support/cut_store.h"
#include "support/patient_membership.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/suspended_machine.h"
#include "support/times.h"

namespace ffdl::elastic {
namespace {

using namespace std::chrono_literals;
using testing::CutStore;
using testing::soon;
using testing::SuspendedMachine;

SessionOptions options_with(Duration lease, Duration fence_after) {
  SessionOptions options;
  options.membership = testing::patient_membership(lease);
  options.membership.fence_after = fence_after;
  return options;
}

class WaitLimitTest : public ::testing::Test {
 protected:
  // Joins as the only member.
  void join(Duration lease, Duration fence_after) {
    options_ = options_with(lease, fence_after);
    ASSERT_OK(life_.join(way_in_, {"a", 0, "a:1"}));
  }
  WaitLimit begin(Duration limit) { return {machine_, life_, limit}; }

  const std::unique_ptr<Store> store_ = open_store("mem://", system_runtime()).value();
  CutStore way_in_{*store_};
  SuspendedMachine machine_;
  SessionOptions options_;
  const ParticipantList nobody_{{}};
  Life life_{options_, nobody_, machine_};
};

// Each step of the clock is shorter than a lease.
TEST_F(WaitLimitTest, IsOverAfterItsTime) {
  join(50s, 100s);
  const WaitLimit limit = begin(60s);
  machine_.suspend(29s);
  EXPECT_FALSE(limit.is_over());
  machine_.suspend(30s);
  EXPECT_FALSE(limit.is_over());
  machine_.suspend(1s);
  EXPECT_TRUE(limit.is_over());
  EXPECT_TRUE(limit.is_over());
}

TEST_F(WaitLimitTest, AStandstillDoesNotCount) {
  join(10s, 100s);
  const WaitLimit limit = begin(15s);
  machine_.suspend(1h);
  EXPECT_FALSE(limit.is_over());
  machine_.suspend(8s);
  EXPECT_FALSE(limit.is_over());
  machine_.suspend(7s);
  EXPECT_TRUE(limit.is_over());
}

TEST_F(WaitLimitTest, AStandstillBeforeTheWaitIsNoneOfIt) {
  join(10s, 100s);
  machine_.suspend(1h);
  const WaitLimit limit = begin(8s);
  machine_.suspend(9s);
  EXPECT_TRUE(limit.is_over());
}

// The wait goes on in the next life.
TEST_F(WaitLimitTest, AStandstillOfAnEarlierLifeDoesNotCount) {
  join(1s, 4s);
  const WaitLimit limit = begin(30s);
  way_in_.cut(CutStore::Way::kRefuses);
  machine_.suspend(1h);
  ASSERT_TRUE(comes_true([&] { return life_.may_come_back(); }));
  way_in_.restore();
  ASSERT_OK_AND_ASSIGN(auto next, life_.membership().rejoin({}, soon(), [] { return true; }));
  life_.come_back(std::move(next));
  EXPECT_OK(life_.status());
  EXPECT_FALSE(limit.is_over());
}

}  // namespace
}  // namespace ffdl::elastic
