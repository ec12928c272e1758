#include "ffdl/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace ffdl {
namespace {

Result<int> half_of(int value) {
  if (value % 2 != 0) {
    return Status(StatusCode::kInvalidArgument, "halve '3': it is odd; give an even number");
  }
  return value / 2;
}

Result<int> quarter_of(int value) {
  FFDL_ASSIGN_OR_RETURN(int half, half_of(value));
  return half_of(half);
}

Status check_quarter(int value) {
  FFDL_RETURN_IF_ERROR(quarter_of(value).status());
  return {};
}

TEST(Status, OkIsANullPointer) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(sizeof(Status), sizeof(void*));
  EXPECT_EQ(Status().code(), StatusCode::kOk);
  EXPECT_EQ(Status().to_string(), "Ok");
  EXPECT_EQ(Status(StatusCode::kOk, "text").message(), "");
}

TEST(Status, KeepsCodeAndMessageThroughCopies) {
  const Status failed(StatusCode::kTimeout, "wait: 2 s passed");
  const Status copy = failed;  // NOLINT: the copy is what is tested
  Status assigned;
  assigned = copy;
  EXPECT_EQ(assigned.code(), StatusCode::kTimeout);
  EXPECT_EQ(assigned.to_string(), "Timeout: wait: 2 s passed");
}

TEST(Status, ContextGoesInFront) {
  EXPECT_EQ(Status(StatusCode::kNotFound, "no file").with_context("open 'x'").message(),
            "open 'x': no file");
  EXPECT_TRUE(Status().with_context("open 'x'").ok());
}

TEST(Status, ControlCharactersOfOthersAreEscaped) {
  const Status failed = Status(StatusCode::kNotFound, "get '\x1b]0;mine\x07\xff': \xc3\xb6\n")
                            .with_context("open '\x1b[2J'");
  EXPECT_EQ(failed.to_string(), R"(NotFound: open '\x1b[2J': get '\x1b]0;mine\x07\xff': )"
                                "\xc3\xb6\\n");
  // The text is escaped only once, since an answer of another process may contain the text of a
  // Status.
  EXPECT_EQ(Status(StatusCode::kNotFound, std::string(failed.message())).message(),
            failed.message());
}

TEST(Status, EveryCodeHasAName) {
  for (int code = 0; code <= static_cast<int>(StatusCode::kInternal); ++code) {
    EXPECT_NE(to_string(static_cast<StatusCode>(code)), "Unknown") << code;
  }
  EXPECT_EQ(to_string(static_cast<StatusCode>(200)), "Unknown");
}

TEST(Result, HoldsAValueOrTheReason) {
  EXPECT_EQ(half_of(8).value(), 4);
  EXPECT_EQ(half_of(3).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Result<int>(Status()).status().code(), StatusCode::kInternal);
}

TEST(Result, MacrosPassFailuresUp) {
  EXPECT_EQ(quarter_of(8).value(), 2);
  EXPECT_TRUE(check_quarter(8).ok());
  EXPECT_EQ(check_quarter(6).code(), StatusCode::kInvalidArgument);
}

TEST(Result, MovesItsValueOut) {
  Result<std::unique_ptr<int>> made = std::make_unique<int>(7);
  const std::unique_ptr<int> taken = std::move(made).value();
  EXPECT_EQ(*taken, 7);
}

}  // namespace
}  // namespace ffdl
