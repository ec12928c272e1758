#include "elastic/session/store_task.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"
#include "support/times.h"

namespace ffdl::elastic {
namespace {

using namespace std::chrono_literals;
using testing::soon;

TEST(StoreTask, ReportsTheOutcomeOfEachWrite) {
  StoreTask task(system_runtime());
  EXPECT_FALSE(task.has_started());
  ASSERT_TRUE(task.start(
      "write", [](const StopToken&) { return Status(StatusCode::kUnavailable, "no store"); }));
  EXPECT_TRUE(task.has_started());
  ASSERT_TRUE(task.wait_until(soon()));
  EXPECT_TRUE(task.has_failed());
  task.join();
  EXPECT_FALSE(task.has_started());
  EXPECT_EQ(task.outcome().code(), StatusCode::kUnavailable);

  ASSERT_TRUE(task.start("write", [](const StopToken&) { return Status(); }));
  ASSERT_TRUE(task.wait_until(soon()));
  EXPECT_FALSE(task.has_failed());
  task.join();
  EXPECT_OK(task.outcome());
}

TEST(StoreTask, LeavesAHangingWriteAlone) {
  Runtime& runtime = system_runtime();
  const auto may_end = runtime.make_event();
  StoreTask task(runtime);
  ASSERT_TRUE(task.start("write", [&](const StopToken&) {
    may_end->wait_until(soon());
    return Status();
  }));
  EXPECT_FALSE(task.wait_until(runtime.now() + 10ms));
  EXPECT_FALSE(task.has_failed());
  may_end->set();
  task.join();
  EXPECT_OK(task.outcome());
}

}  // namespace
}  // namespace ffdl::elastic
