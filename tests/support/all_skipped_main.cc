#include <gtest/gtest.h>

#include <cstdio>

// Serves tests with rare requirements. The last line reports to ctest that none of them has run
// (SKIP_REGULAR_EXPRESSION), however many they are.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int outcome = RUN_ALL_TESTS();
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  if (outcome == 0 && all.test_to_run_count() > 0 &&
      all.skipped_test_count() == all.test_to_run_count()) {
    std::puts("all tests were skipped");
  }
  return outcome;
}
