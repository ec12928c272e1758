#include "launch/line_pump.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/limits.h"
#include "ffdl/runtime.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::launch {
namespace {

class LinePumpTest : public ::testing::Test {
 protected:
  LinePumpTest()
      : path_(folder_.write("out", "")), out_(::open(path_.c_str(), O_WRONLY | O_APPEND)) {}
  ~LinePumpTest() override { ::close(out_); }

  // Returns the end of a pipe to which a worker would write.
  int add(LinePump& pump, const std::string& prefix) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    pump.add(base::ForkPrivateFd(ends[0]), prefix, out_);
    return ends[1];
  }
  static void write(int to, std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = ::write(to, text.data(), text.size());
      ASSERT_GT(written, 0);
      text.remove_prefix(static_cast<size_t>(written));
    }
  }
  std::string passed() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // Waits until exactly this text has been passed on.
  bool comes(const std::string& text) const {
    return comes_true([&] { return passed() == text; });
  }

  const TempFolder folder_;
  const std::string path_;
  const int out_;
};

TEST_F(LinePumpTest, EachLineHasItsPrefix) {
  ASSERT_OK_AND_ASSIGN(auto pump, LinePump::start());
  const int a = add(*pump, "[a] "), b = add(*pump, "[b] ");
  write(a, "one\ntw");
  write(b, "eins\n\n");
  write(a, "o\nthree");
  ::close(a);
  ::close(b);
  pump.reset();
  std::istringstream lines(passed());
  std::string of_a, of_b;
  for (std::string line; std::getline(lines, line);) (line[1] == 'a' ? of_a : of_b) += line + "\n";
  EXPECT_EQ(of_a, "[a] one\n[a] two\n[a] three\n");
  EXPECT_EQ(of_b, "[b] eins\n[b] \n");
}

TEST_F(LinePumpTest, NothingIsLostAtItsEnd) {
  std::string expected;
  {
    ASSERT_OK_AND_ASSIGN(const auto started, LinePump::start());
    LinePump& pump = *started;
    const int worker = add(pump, "> ");
    for (int i = 0; i < 20000; ++i) {
      const std::string line = "line " + std::to_string(i) + "\n";
      expected += "> " + line;
      write(worker, line);
    }
    write(worker, "the end");
    expected += "> the end\n";
    ::close(worker);
  }
  EXPECT_EQ(passed(), expected);
}

TEST_F(LinePumpTest, AProgressBarIsSeenBeforeItsLineEnds) {
  ASSERT_OK_AND_ASSIGN(auto pump, LinePump::start());
  const int worker = add(*pump, "> ");
  write(worker, "1/3\r");
  EXPECT_TRUE(comes("> 1/3\r")) << passed();
  write(worker, "2/3\r3/");
  EXPECT_TRUE(comes("> 1/3\r> 2/3\r")) << passed();
  write(worker, "3\r");
  EXPECT_TRUE(comes("> 1/3\r> 2/3\r> 3/3\r")) << passed();
  write(worker, "\ndone\n");
  ::close(worker);
  pump.reset();
  EXPECT_EQ(passed(), "> 1/3\r> 2/3\r> 3/3\r\n> done\n");
}

// Each state of the bar is seen when the next one begins.
TEST_F(LinePumpTest, AProgressBarMayBeginWithItsCarriageReturn) {
  ASSERT_OK_AND_ASSIGN(auto pump, LinePump::start());
  const int worker = add(*pump, "> ");
  write(worker, "\r1/3\r2/3");
  EXPECT_TRUE(comes("> 1/3\r")) << passed();
  write(worker, "\r3/3");
  EXPECT_TRUE(comes("> 1/3\r> 2/3\r")) << passed();
  write(worker, "\ndone\n");
  ::close(worker);
  pump.reset();
  EXPECT_EQ(passed(), "> 1/3\r> 2/3\r> 3/3\n> done\n");
}

TEST_F(LinePumpTest, CarriageReturnAndNewlineEndOneLine) {
  ASSERT_OK_AND_ASSIGN(auto pump, LinePump::start());
  const int worker = add(*pump, "> ");
  write(worker, "one\r\n\r\n");
  EXPECT_TRUE(comes("> one\r\n> \n")) << passed();
  write(worker, "two\r");
  EXPECT_TRUE(comes("> one\r\n> \n> two\r")) << passed();
  write(worker, "\n\nthree\r\r");
  write(worker, "\nfour\n");
  ::close(worker);
  pump.reset();
  EXPECT_EQ(passed(), "> one\r\n> \n> two\r\n> \n> three\r\n> four\n");
}

TEST_F(LinePumpTest, ABarThatIsItsLastLineIsFinished) {
  ASSERT_OK_AND_ASSIGN(auto pump, LinePump::start());
  const int worker = add(*pump, "> ");
  write(worker, "3/3\r");
  ::close(worker);
  pump.reset();
  EXPECT_EQ(passed(), "> 3/3\r\n");
}

// Models a process that a worker has started and left behind.
TEST_F(LinePumpTest, AnOpenPipeDoesNotHoldUpItsEnd) {
  ASSERT_OK_AND_ASSIGN(auto pump, LinePump::start());
  const int worker = add(*pump, "> ");
  write(worker, "said");
  pump.reset();
  ::close(worker);
  EXPECT_EQ(passed(), "> said\n");
}

TEST_F(LinePumpTest, ALongLineIsPassedOnInPieces) {
  const std::string piece(base::kLogLineMax, 'x');
  {
    ASSERT_OK_AND_ASSIGN(const auto started, LinePump::start());
    LinePump& pump = *started;
    const int worker = add(pump, "> ");
    write(worker, piece + piece + "rest\n");
    ::close(worker);
  }
  // The places of the cuts depend on timing. No byte is missing or doubled.
  std::istringstream lines(passed());
  std::string all;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 3 * base::kLogLineMax);
    ASSERT_TRUE(line.starts_with("> "));
    all += line.substr(2);
  }
  EXPECT_EQ(all, piece + piece + "rest");
}

TEST_F(LinePumpTest, WhereNobodyReadsThePipeIsEmptiedAllTheSame) {
  ::signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> closed{};
  ASSERT_EQ(::pipe2(closed.data(), O_CLOEXEC), 0);
  ::close(closed[0]);
  {
    ASSERT_OK_AND_ASSIGN(const auto started, LinePump::start());
    LinePump& pump = *started;
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    pump.add(base::ForkPrivateFd(ends[0]), "> ", closed[1]);
    write(ends[1], std::string(size_t{1} << 20, '\n'));  // more than a pipe can hold
    ::close(ends[1]);
  }
  ::close(closed[1]);
  ::signal(SIGPIPE, SIG_DFL);
}

}  // namespace
}  // namespace ffdl::launch
