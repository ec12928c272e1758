#include "base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace ffdl {
namespace {

// The environment is read once per process, so each value is tried in a process of its own.
void expect_level(const char* text, LogLevel level) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto exit_with_whether_it_matches = [&] {
    setenv("FFDL_LOG", text, 1);
    std::exit(base::environment().log_level == level ? 0 : 1);
  };
  EXPECT_EXIT(exit_with_whether_it_matches(), ::testing::ExitedWithCode(0), "") << text;
}

TEST(EnvironmentDeathTest, FfdlLogNamesALevel) {
  expect_level("debug", LogLevel::kDebug);
  expect_level("info", LogLevel::kInfo);
  expect_level("warning", LogLevel::kWarning);
  expect_level("error", LogLevel::kError);
}

TEST(EnvironmentDeathTest, AnythingElseMeansWarning) {
  expect_level("", LogLevel::kWarning);
  expect_level("loud", LogLevel::kWarning);
}

}  // namespace
}  // namespace ffdl
