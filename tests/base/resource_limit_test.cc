#include "base/resource_limit.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "support/low_limit.h"
#include "support/status_matchers.h"

namespace ffdl::base {
namespace {

TEST(UsedUp, ALimitIsExhaustedAndNamed) {
  struct Row {
    int error;
    const char* limit;
  };
  for (const Row& row : {Row{EMFILE, "ulimit -n"}, Row{ENFILE, "fs.file-max"},
                         Row{ENOMEM, "ulimit -v"}, Row{ENOBUFS, "memory"}, Row{ENOSPC, "make room"},
                         Row{EDQUOT, "quota"}, Row{EFBIG, "ulimit -f"}}) {
    EXPECT_FAILS(system_failure("open 'x'", row.error, "look at it"), StatusCode::kExhausted,
                 row.limit);
  }
}

TEST(UsedUp, TheLimitOfTheSizeOfFilesHasItsValue) {
  const testing::LowLimit small(RLIMIT_FSIZE, 12'345);
  EXPECT_FAILS(system_failure("write 'x'", EFBIG, ""), StatusCode::kExhausted,
               "('ulimit -f'), which is 12345 bytes");
}

TEST(UsedUp, AnotherErrorHasTheAdviceOfTheCaller) {
  EXPECT_EQ(what_to_raise(EACCES), "");
  EXPECT_EQ(system_failure("open 'x'", EACCES, "look at it").message(),
            "open 'x': Permission denied; look at it");
  EXPECT_FAILS(system_failure("open 'x'", EACCES, ""), StatusCode::kUnavailable, "open 'x'");
  EXPECT_FAILS(system_failure("open 'x'", ENOENT, "", StatusCode::kNotFound), StatusCode::kNotFound,
               "open 'x'");
}

TEST(UsedUp, IsFoundInTheMessageOfOtherCode) {
  EXPECT_EQ(limit_named_in("[enforce fail at listener.cc:36] listen: Too many open files"), EMFILE);
  EXPECT_EQ(limit_named_in("Cannot allocate memory"), ENOMEM);
  EXPECT_EQ(limit_named_in("Connection refused"), 0);
  EXPECT_EQ(limit_named_in(""), 0);
}

}  // namespace
}  // namespace ffdl::base
