#include "ps/learner/transfer.h"

#include <gtest/gtest.h>

#include <latch>
#include <memory>

#include "support/status_matchers.h"

namespace ffdl::ps {
namespace {

using namespace std::chrono_literals;

TEST(Transfer, RunsOnePushAndOnePullBesideEachOther) {
  ASSERT_OK_AND_ASSIGN(const auto transfer, Transfer::begin());
  std::latch both(2);
  ASSERT_OK(transfer->start_push([&]() -> Result<PushResult> {
    both.arrive_and_wait();
    return PushResult::kAccumulated;
  }));
  ASSERT_OK(transfer->start_pull([&]() -> Result<uint64_t> {
    both.arrive_and_wait();
    return 7;
  }));
  ASSERT_OK_AND_ASSIGN(const uint64_t version, transfer->finish_pull(deadline_in(60s)));
  EXPECT_EQ(version, 7U);
  ASSERT_OK_AND_ASSIGN(const PushResult pushed, transfer->finish_push(deadline_in(60s)));
  EXPECT_EQ(pushed, PushResult::kAccumulated);
  EXPECT_FALSE(transfer->pushing());
}

TEST(Transfer, KeepsAResultUntilItIsTaken) {
  ASSERT_OK_AND_ASSIGN(const auto transfer, Transfer::begin());
  std::latch end(1);
  ASSERT_OK(transfer->start_push([&]() -> Result<PushResult> {
    end.wait();
    return Status(StatusCode::kInternal, "the copy failed");
  }));
  EXPECT_TRUE(transfer->pushing());
  EXPECT_FAILS(transfer->check_no_push(), StatusCode::kInvalidArgument, "finish_push() first");
  EXPECT_FAILS(transfer->finish_push(deadline_in(10ms)), StatusCode::kTimeout, "not done");
  end.count_down();
  transfer->wait_for_push();
  EXPECT_TRUE(transfer->pushing());
  EXPECT_FAILS(transfer->finish_push(deadline_in(60s)), StatusCode::kInternal, "the copy failed");
  EXPECT_FAILS(transfer->finish_push(kNoDeadline), StatusCode::kInvalidArgument,
               "none was started");
  EXPECT_OK(transfer->check_no_push());
  EXPECT_OK(transfer->check_no_pull());
}

}  // namespace
}  // namespace ffdl::ps
