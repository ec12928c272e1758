#include "comm/api/interruptible_store.h"

#include <gtest/gtest.h>

#include "ffdl/runtime.h"
#include "support/status_matchers.h"

namespace ffdl::comm {
namespace {

using namespace std::chrono_literals;

TEST(InterruptibleStore, EndsAWaitWithTheErrorOfTheCheck) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  int checks = 0;
  const std::function<Status()> check = [&] {
    return ++checks < 3 ? Status() : Status(StatusCode::kCancelled, "enough");
  };
  InterruptibleStore interruptible(*store, check);
  EXPECT_FAILS(interruptible.wait_change("a", 1, kNoDeadline), StatusCode::kCancelled, "enough");
  EXPECT_EQ(checks, 3);
}

TEST(InterruptibleStore, KeepsTheDeadlineAndSeesChanges) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  const std::function<Status()> check = [] { return Status(); };
  InterruptibleStore interruptible(*store, check);
  EXPECT_FAILS(interruptible.wait_change("a", 1, deadline_in(250ms)), StatusCode::kTimeout, "");
  ASSERT_OK_AND_ASSIGN(const Revision put, interruptible.put("a", "1", kNoLease));
  ASSERT_OK_AND_ASSIGN(const Revision seen, interruptible.wait_change("a", 1, kNoDeadline));
  EXPECT_GE(seen, put);
}

}  // namespace
}  // namespace ffdl::comm
