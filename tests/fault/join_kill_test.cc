#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

#include "ffdl/comm/communicator.h"
#include "ffdl/diagnose.h"
#include "support/exit_code.h"
#include "support/fork_child.h"
#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

// Kills members while they connect. Nothing of them stays in /dev/shm, and the survivors get an
// error.
namespace ffdl {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 3;
constexpr uint64_t kKills = 100;
constexpr Duration kPatience = 200ms;  // patience of members that wait for one that never joins

enum Outcome { kLostLater = 0, kToldWhileJoining, kWrong };

[[noreturn]] void exit_wrong(const Status& status) {
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  _exit(kWrong);
}

pid_t start(int rank, uint64_t generation, const std::string& url, bool stays) {
  const pid_t child = testing::fork_child();
  if (child != 0) return child;
  auto store = open_store(url, system_runtime(), {.operation_timeout = 60s});
  if (!store.ok()) exit_wrong(store.status());
  const auto made = connect_communicator({generation, rank, testing::members_named(kRanks)},
                                         **store, deadline_in(stays ? kPatience : 60s));
  const StatusCode code = made.status().code();
  if (code == StatusCode::kTimeout || code == StatusCode::kPeerLost) _exit(kToldWhileJoining);
  if (!made.ok()) exit_wrong(made.status());
  Status status;
  do {
    status = (*made)->barrier(deadline_in(60s));
  } while (stays && status.ok());
  if (!status.ok() && status.code() != StatusCode::kPeerLost) exit_wrong(status);
  _exit(kLostLater);
}

std::vector<pid_t> start_all(uint64_t generation, const std::string& url, bool stay) {
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < kRanks; ++rank) ranks.push_back(start(rank, generation, url, stay));
  return ranks;
}

bool left_something(const std::vector<pid_t>& ranks) {
  return std::ranges::any_of(*list_segments(), [&](const SegmentInfo& segment) {
    return std::ranges::count(ranks, segment.creator_pid) != 0;
  });
}

TEST(JoinKill, LeavesNothingInSharedMemory) {
  const TempFolder folder;
  const std::string url = "file://" + folder.path();
  const auto begin = std::chrono::steady_clock::now();
  for (const pid_t rank : start_all(1, url, false)) EXPECT_EQ(testing::exit_code(rank), 0);
  const auto joining = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - begin);
  std::mt19937 random(std::random_device{}());
  int told_while_joining = 0;
  // Goes on until a kill has come in time, with a bound.
  const auto goes_on = [&](uint64_t generation) {
    return generation < 2 + kKills ||
           (told_while_joining == 0 && generation < 2 + 10 * kKills);
  };
  for (uint64_t generation = 2; goes_on(generation); ++generation) {
    const std::vector<pid_t> ranks = start_all(generation, url, true);
    std::this_thread::sleep_for(joining * (random() % 1000) / 1000);
    // Kills one member, rank 0 more often than others, or all.
    const size_t victim = random() % (kRanks + 2);
    for (size_t rank = 0; rank < kRanks; ++rank) {
      if (victim == kRanks || rank == victim % (kRanks + 1)) kill(ranks[rank], SIGKILL);
    }
    for (const pid_t rank : ranks) {
      const int code = testing::exit_code(rank);
      EXPECT_TRUE(code == -SIGKILL || code == kLostLater || code == kToldWhileJoining)
          << "generation " << generation << ": " << code;
      told_while_joining += code == kToldWhileJoining ? 1 : 0;
    }
    ASSERT_FALSE(left_something(ranks)) << "generation " << generation;
  }
  EXPECT_GT(told_while_joining, 0);  // fails if no kill came in time
}

}  // namespace
}  // namespace ffdl
