#include "base/check.h"

#include <gtest/gtest.h>

namespace ffdl {
namespace {

TEST(CheckDeathTest, ABrokenInvariantEndsTheProcessAndSaysWhy) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const int slots = 3;
  FFDL_CHECK(slots == 3, "never printed");
  EXPECT_DEATH(FFDL_CHECK(slots == 4, "slots come in fours"), "slots == 4.*slots come in fours");
}

}  // namespace
}  // namespace ffdl
