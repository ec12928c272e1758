#include "benchmarks/harness/quiet.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace ffdl::bench {
namespace {

// A process that ends between the open and the read of its file causes such a failure.
TEST(ReadText, AFailureIsTheEndOfIt) {
  EXPECT_EQ(read_text(std::filesystem::temp_directory_path()), "");
  EXPECT_EQ(read_text("/proc/self/no-such-file"), "");
  EXPECT_NE(read_text("/proc/self/stat"), "");
}

TEST(ParseMachineTicks, AddsUpTheFirstLine) {
  const auto ticks = parse_machine_ticks("cpu  100 2 30 1000 7 1 4 5 9 9\ncpu0 1 1 1 1 1 1 1 1\n");
  ASSERT_TRUE(ticks);
  EXPECT_EQ(ticks->busy, 100U + 2 + 30 + 1 + 4 + 5);
  EXPECT_EQ(ticks->idle, 1000U + 7);
  EXPECT_FALSE(parse_machine_ticks("cpu0 1 2 3 4 5 6 7 8"));
  EXPECT_FALSE(parse_machine_ticks("cpu 1 2"));
  EXPECT_FALSE(parse_machine_ticks(""));
}

TEST(ParseProcessTicks, IsNotMisledByTheName) {
  const auto ticks = parse_process_ticks(
      "42 (a ) (b) S 7 42 42 0 -1 4194304 100 0 0 0 11 22 3 4 20 0 1 0 500 1000 10\n");
  ASSERT_TRUE(ticks);
  EXPECT_EQ(ticks->parent, 7);
  EXPECT_EQ(ticks->ticks, 40U);
  EXPECT_FALSE(parse_process_ticks("42 (short) S 7"));
  EXPECT_FALSE(parse_process_ticks(""));
}

TEST(TreeTicks, CountsDescendantsAndNobodyElse) {
  const std::map<pid_t, ProcessTicks> processes = {
      {1, {0, 1000}}, {10, {1, 5}}, {4, {10, 7}}, {3, {4, 20}}, {12, {1, 300}}};
  EXPECT_EQ(tree_ticks(processes, 10), 32U);
  EXPECT_EQ(tree_ticks(processes, 3), 20U);
  EXPECT_EQ(tree_ticks(processes, 99), 0U);
}

TEST(ForeignShare, IsWhatIsBusyAndNotOurs) {
  const CpuSample before{{.busy = 1000, .idle = 5000}, 300};
  const CpuSample after{{.busy = 1150, .idle = 5050}, 430};
  EXPECT_DOUBLE_EQ(foreign_share(before, after), 0.1);
  EXPECT_EQ(foreign_share(before, before), 0);
  // The kernel counts the time of a process more finely than that of the machine. The own time may
  // therefore exceed the busy time.
  EXPECT_EQ(foreign_share(before, {{.busy = 1010, .idle = 5010}, 320}), 0);
}

TEST(SampleCpu, SeesOurOwnWork) {
  const CpuSample before = sample_cpu();
  EXPECT_GT(before.machine.busy, 0U);
  CpuSample after = before;
  while (after.own < before.own + 3) after = sample_cpu();
  EXPECT_GE(after.machine.busy + after.machine.idle, before.machine.busy + before.machine.idle);
}

bool free_for_another_process(const std::string& path) {
  return std::system(("flock --nonblock " + path + " true").c_str()) == 0;
}

TEST(RunLock, IsExclusiveAndEndsWithItsOwner) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("ffdl_lock_test." + std::to_string(getpid()));
  {
    auto lock = RunLock::take(path);
    ASSERT_TRUE(lock.ok());
    EXPECT_FALSE(free_for_another_process(path));
  }
  EXPECT_TRUE(free_for_another_process(path));
  std::filesystem::remove(path);
}

TEST(RunLock, DoesNotWaitForALockThatItsStarterHandedDown) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("ffdl_lock_test." + std::to_string(getpid()));
  const int inherited = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(flock(inherited, LOCK_EX), 0);
  EXPECT_TRUE(RunLock::take(path).ok());
  close(inherited);
  std::filesystem::remove(path);
}

TEST(RunLock, SaysWhichFileItCannotOpen) {
  const auto lock = RunLock::take("/proc/no/such/lock");
  ASSERT_FALSE(lock.ok());
  EXPECT_NE(lock.status().message().find("/proc/no/such/lock"), std::string_view::npos);
}

}  // namespace
}  // namespace ffdl::bench
