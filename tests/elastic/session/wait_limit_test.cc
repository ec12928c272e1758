#include "elastic/session/wait_limit.h"

#include <gtest/gtest.h>

#include <memory>

#include "ffdl/store.h"
#include "support/cut_store.h"
#include "support/patient_membership.h"
#include "support/status_matchers.h"
#include "support/suspended_machine.h"

namespace ffdl::elastic {
namespace {

using namespace std::chrono_literals;
using testing::CutStore;
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

  // Returns whether the wait is over once the clock shows so much more.
  bool is_over_after(Duration time, const WaitLimit& limit) {
    machine_.suspend(time);
    return limit.is_over();
  }

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
  const WaitLimit limit(life_, 60s);
  EXPECT_FALSE(is_over_after(20s, limit));
  EXPECT_FALSE(is_over_after(20s, limit));
  EXPECT_TRUE(is_over_after(20s, limit));
  EXPECT_FALSE(limit.is_over_for(20s));
  machine_.suspend(20s);
  EXPECT_TRUE(limit.is_over_for(20s));
}

TEST_F(WaitLimitTest, AStandstillDoesNotCount) {
  join(50s, 100s);
  const WaitLimit limit(life_, 50s);
  EXPECT_FALSE(is_over_after(1h, limit));
  EXPECT_FALSE(is_over_after(25s, limit));
  EXPECT_TRUE(is_over_after(25s, limit));
}

TEST_F(WaitLimitTest, AStandstillBeforeTheWaitIsNoneOfIt) {
  join(50s, 100s);
  machine_.suspend(1h);
  WaitLimit limit(life_, 20s);
  EXPECT_TRUE(is_over_after(20s, limit));
  limit.restart();
  EXPECT_FALSE(limit.is_over());
}

TEST_F(WaitLimitTest, AVeryLongWaitIsNotOver) {
  join(50s, 100s);
  const WaitLimit limit(life_, Duration::max());
  EXPECT_FALSE(limit.is_over());
}

// The machine is suspended in the earlier life, and between the two lives, in which both clocks
// run. The rest of the time counts once.
TEST_F(WaitLimitTest, GoesOnInTheNextLife) {
  join(50s, 100s);
  const WaitLimit limit(life_, 120s);
  way_in_.cut(CutStore::Way::kRefuses);
  EXPECT_FALSE(is_over_after(1h, limit));
  EXPECT_FALSE(is_over_after(40s, limit));
  machine_.suspend(40s);  // it has asked the store for a lease
  ASSERT_TRUE(life_.may_come_back());
  way_in_.restore();
  ASSERT_OK_AND_ASSIGN(auto next, life_.membership().rejoin({}, [] { return true; }));
  machine_.suspend(1h);
  life_.come_back(std::move(next));
  EXPECT_OK(life_.status());
  EXPECT_FALSE(limit.is_over());
  EXPECT_FALSE(is_over_after(20s, limit));
  EXPECT_TRUE(is_over_after(20s, limit));
}

}  // namespace
}  // namespace ffdl::elastic
