#include "comm/looking_store.h"

#include <gtest/gtest.h>

#include "ffdl/runtime.h"
#include "support/status_matchers.h"

namespace ffdl::comm {
namespace {

using namespace std::chrono_literals;

TEST(LookingStore, EndsAWaitWithWhatTheLookSays) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  int looks = 0;
  const std::function<Status()> look = [&] {
    return ++looks < 3 ? Status() : Status(StatusCode::kCancelled, "enough");
  };
  LookingStore looking(*store, look);
  EXPECT_FAILS(looking.wait_change("a", 1, kNoDeadline), StatusCode::kCancelled, "enough");
  EXPECT_EQ(looks, 3);
}

TEST(LookingStore, KeepsTheDeadlineAndSeesChanges) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  const std::function<Status()> look = [] { return Status(); };
  LookingStore looking(*store, look);
  EXPECT_FAILS(looking.wait_change("a", 1, deadline_in(250ms)), StatusCode::kTimeout, "");
  ASSERT_OK_AND_ASSIGN(const Revision put, looking.put("a", "1", kNoLease));
  ASSERT_OK_AND_ASSIGN(const Revision seen, looking.wait_change("a", 1, kNoDeadline));
  EXPECT_GE(seen, put);
}

}  // namespace
}  // namespace ffdl::comm
