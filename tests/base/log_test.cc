#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace ffdl {
namespace {

class CapturedLog {
 public:
  CapturedLog() {
    set_log_sink([this](LogLevel, std::string_view line) { lines.emplace_back(line); });
  }
  ~CapturedLog() { set_log_sink({}); }
  std::vector<std::string> lines;
};

TEST(Log, SendsFormattedLinesToTheSink) {
  CapturedLog log;
  base::log_warning("segment '{}': {} bytes", "a", 12);
  EXPECT_EQ(log.lines, std::vector<std::string>{"segment 'a': 12 bytes"});
}

// The name of another process is escaped, since a sink may write to a terminal.
TEST(Log, ControlCharactersAreEscapedForEverySink) {
  CapturedLog log;
  base::log_warning("member '{}' joined", "\x1b[2J\nffdl error: forged\xff");
  EXPECT_EQ(log.lines,
            std::vector<std::string>{R"(member '\x1b[2J\nffdl error: forged\xff' joined)"});
  set_log_sink({});
  ::testing::internal::CaptureStderr();
  base::log_warning("member '{}' joined", "\x1b[2J");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "ffdl warning: member '\\x1b[2J' joined\n");
}

TEST(Log, LinesBelowTheLevelAreNotMade) {
  CapturedLog log;
  base::log_at(LogLevel::kDebug, "not seen by default");
  EXPECT_TRUE(log.lines.empty());
}

TEST(Log, OneCallOfTheSinkAtATime) {
  CapturedLog log;
  auto write = [] {
    for (int i = 0; i < 500; ++i) base::log_error("line {}", i);
  };
  std::thread first(write);
  std::thread second(write);
  first.join();
  second.join();
  EXPECT_EQ(log.lines.size(), 1000U);
}

}  // namespace
}  // namespace ffdl
