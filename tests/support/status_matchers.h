#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "ffdl/status.h"

// Declares ASSERT_OK(call), ASSERT_OK_AND_ASSIGN(auto x, call) and EXPECT_FAILS(call, code, "part
// of the text").
namespace ffdl::testing {

inline const Status& status_of(const Status& status) { return status; }
template <class T>
const Status& status_of(const Result<T>& result) {
  return result.status();
}

}  // namespace ffdl::testing

#define EXPECT_OK(expression)                                                               \
  do {                                                                                      \
    const auto& ffdl_outcome = (expression);                                                \
    EXPECT_TRUE(ffdl_outcome.ok()) << ::ffdl::testing::status_of(ffdl_outcome).to_string(); \
  } while (false)

#define ASSERT_OK(expression)                                                               \
  do {                                                                                      \
    const auto& ffdl_outcome = (expression);                                                \
    ASSERT_TRUE(ffdl_outcome.ok()) << ::ffdl::testing::status_of(ffdl_outcome).to_string(); \
  } while (false)

#define ASSERT_OK_AND_ASSIGN(declaration, expression) \
  ASSERT_OK_AND_ASSIGN_INNER(FFDL_CONCAT(ffdl_made_, __LINE__), declaration, expression)
#define ASSERT_OK_AND_ASSIGN_INNER(made, declaration, expression) \
  auto made = (expression);                                       \
  ASSERT_TRUE(made.ok()) << made.status().to_string();            \
  declaration = std::move(made).value()

#define EXPECT_FAILS(expression, expected_code, text)                              \
  do {                                                                             \
    const auto& ffdl_outcome = (expression);                                       \
    const ::ffdl::Status& ffdl_failure = ::ffdl::testing::status_of(ffdl_outcome); \
    EXPECT_EQ(ffdl_failure.code(), expected_code) << ffdl_failure.to_string();     \
    EXPECT_NE(ffdl_failure.message().find(text), std::string_view::npos)           \
        << ffdl_failure.to_string();                                               \
  } while (false)
