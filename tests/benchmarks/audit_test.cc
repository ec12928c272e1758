#include "benchmarks/rescale/audit.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace ffdl::bench {
namespace {

TEST(Audit, PositionsOfAPartitionThatFollowEachOtherAreInOrder) {
  // The audit of two members, one of which joined late.
  const auto result = check_audit(
      {"1 0 0 2\n2 1 0 1\n3 1 1 2\n4 0 2 4 1 2 4\n5 0 4 5\n", "4 0 2 4 1 2 4\n5 0 4 5\n"});
  ASSERT_OK(result);
  EXPECT_EQ(result->steps, 5U);
  EXPECT_EQ(result->steps_lost, 0U);
  EXPECT_EQ(result->samples_lost, 0U);
  EXPECT_EQ(result->samples_repeated, 0U);
}

TEST(Audit, FindsWhatIsMissingAndWhatIsThereTwice) {
  const auto result = check_audit({"1 0 0 2\n3 1 0 4\n", "4 0 1 3 1 7 8\n"});
  ASSERT_OK(result);
  EXPECT_EQ(result->steps_lost, 1U) << "step 2";
  EXPECT_EQ(result->samples_lost, 3U) << "4 to 7 of partition 1";
  EXPECT_EQ(result->samples_repeated, 1U) << "1 of partition 0";
}

TEST(Audit, AStepThatTwoTellDifferentlyIsAnError) {
  EXPECT_FAILS(check_audit({"1 0 0 2\n", "1 0 0 1\n"}), StatusCode::kInternal,
               "step 1 used 0 0 2 and 0 0 1");
}

TEST(Audit, ALineThatIsNotWholeDoesNotCount) {
  const auto result = check_audit({"1 0 0 2\n2 0 0"});
  ASSERT_OK(result);
  EXPECT_EQ(result->steps, 1U);
}

}  // namespace
}  // namespace ffdl::bench
