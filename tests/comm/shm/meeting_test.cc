#include "comm/shm/meeting.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <thread>

#include "ffdl/diagnose.h"
#include "shm/segment_place.h"
#include "support/fork_child.h"
#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"
#include "support/times.h"

namespace ffdl::comm {
namespace {

using namespace std::chrono_literals;
using testing::soon;

using Way = ShmMeeting::Way;

class ShmMeetingTest : public ::testing::TestWithParam<Way> {
 protected:
  Result<std::unique_ptr<ShmMeeting>> join(int rank, int ranks, Time deadline = soon()) {
    const World world = {.generation = 5, .rank = rank, .members = testing::members_named(ranks)};
    return ShmMeeting::join(world, *store_, deadline, {.slot_bytes = 16384}, GetParam());
  }

  std::array<StatusCode, 3> outcomes_{};
  std::unique_ptr<Store> store_ = open_store("mem://", system_runtime()).value();
};

TEST_P(ShmMeetingTest, WhatIsWrittenInAStepIsReadAfterIt) {
  constexpr int kRanks = 3;
  testing::on_threads(kRanks, [&](int rank) {
    ASSERT_OK_AND_ASSIGN(const auto meeting, join(rank, kRanks));
    const ShmView& view = meeting->view();
    for (uint64_t step = 0; step < 2000; ++step) {
      ASSERT_EQ(meeting->step(), step);
      *view.input(rank, step) = static_cast<std::byte>(step + static_cast<uint64_t>(rank));
      ASSERT_OK(meeting->end_step(soon()));
      for (int other = 0; other < kRanks; ++other) {
        ASSERT_EQ(*view.input(other, step),
                  static_cast<std::byte>(step + static_cast<uint64_t>(other)));
      }
    }
  });
}

TEST_P(ShmMeetingTest, NothingKeepsANameOnceAllHaveJoined) {
  const auto names_in_use = [] {
    int names = 0;
    for (const SegmentInfo& segment : *list_segments()) {
      names += segment.kind == "communicator" && segment.creator_pid == getpid();
    }
    return names;
  };
  testing::on_threads(2, [&](int rank) {
    ASSERT_OK_AND_ASSIGN(const auto meeting, join(rank, 2));
    EXPECT_EQ(names_in_use(), 0);
  });
  EXPECT_EQ(store_->list("")->size(), 0U);
}

TEST_P(ShmMeetingTest, WhoDoesNotComeIsNamed) {
  EXPECT_FAILS(join(0, 2, deadline_in(30ms)), StatusCode::kTimeout, "rank 1 'm1' had not arrived");
  EXPECT_EQ(store_->list("")->size(), 0U);
  EXPECT_FAILS(join(1, 2, deadline_in(30ms)), StatusCode::kTimeout,
               "rank 0 'm0' has made no shared memory");
}

// The awaited member never joins. Rank 0 waits for members, rank 1 for a name in the store.
TEST_P(ShmMeetingTest, ALookEndsAStepAndTheOthersLearnIt) {
  testing::on_threads(2, [&](int rank) {
    std::atomic<bool> enough = false;
    const CommunicatorOptions options{.interrupt_check = [&]() -> Status {
      return enough ? Status(StatusCode::kCancelled, "seen enough") : Status();
    }};
    const World world{5, rank, testing::members_named(2)};
    ASSERT_OK_AND_ASSIGN(const auto meeting,
                         ShmMeeting::join(world, *store_, soon(), options, GetParam()));
    ASSERT_OK(meeting->end_step(soon()));
    if (rank == 1) {
      EXPECT_TRUE(
          meeting->view().bell().wait_until([&] { return !meeting->check_ranks().ok(); }, soon()));
      return;
    }
    enough = true;
    EXPECT_FAILS(meeting->end_step(kNoDeadline), StatusCode::kCancelled, "seen enough");
    meeting->stop();
  });
}

TEST_P(ShmMeetingTest, TwoRanksZeroAreAConflict) {
  ASSERT_OK(store_->put(
      "comm/5/" + fmt::format("{:016x}", world_hash({5, 0, testing::members_named(2)})), "x"));
  EXPECT_FAILS(join(0, 2), StatusCode::kWorldChanged, "new incarnation");
}

// The name of the first meeting may still be in the store when the second begins.
TEST_P(ShmMeetingTest, OneWorldCanMeetAgain) {
  testing::on_threads(3, [&](int rank) {
    std::vector<std::unique_ptr<ShmMeeting>> meetings;
    for (int turn = 0; turn < 10; ++turn) {
      auto meeting = join(rank, 3);
      ASSERT_OK(meeting);
      ASSERT_OK((*meeting)->end_step(soon()));
      meetings.push_back(std::move(meeting).value());
    }
    for (const auto& meeting : meetings) ASSERT_OK(meeting->end_step(soon()));
  });
}

// Ranks 0 and 1 of three join, and a duplicate of rank 1; the third rank never joins. They wait
// until the duplicate is refused.
TEST_P(ShmMeetingTest, ARankIsTakenOnce) {
  std::atomic<int> ended = 0;  // of the two that join as rank 1
  testing::on_threads(3, [&](int thread) {
    const int rank = std::min(thread, 1);
    const CommunicatorOptions options{.slot_bytes = 16384, .interrupt_check = [&]() -> Status {
                                        const bool is_enough = ended == (rank == 0 ? 2 : 1);
                                        return is_enough ? Status(StatusCode::kCancelled, "enough")
                                                         : Status();
                                      }};
    const World world{5, rank, testing::members_named(3)};
    const auto meeting = ShmMeeting::join(world, *store_, soon(), options, GetParam());
    EXPECT_FALSE(meeting.ok());
    outcomes_[static_cast<size_t>(thread)] = meeting.status().code();
    if (rank == 1) ++ended;
  });
  EXPECT_EQ(outcomes_[0], StatusCode::kCancelled);
  EXPECT_EQ((std::multiset{outcomes_[1], outcomes_[2]}),
            (std::multiset{StatusCode::kConflict, StatusCode::kCancelled}));
}

TEST_P(ShmMeetingTest, StopWakesWhoWaitsAndTellsTheOthers) {
  std::atomic<bool> both_joined = false;
  std::atomic<bool> stopped = false;
  testing::on_threads(2, [&](int rank) {
    ASSERT_OK_AND_ASSIGN(const auto meeting, join(rank, 2));
    if (rank == 0) {
      std::thread stopper([&] {
        both_joined.wait(false);
        meeting->stop();
      });
      EXPECT_FAILS(meeting->end_step(kNoDeadline), StatusCode::kCancelled, "stopped");
      stopper.join();
      stopped = true;
      stopped.notify_all();
    } else {
      both_joined = true;
      both_joined.notify_all();
      stopped.wait(false);
      // Rank 0 arrived at the first step before it stopped.
      Status status = meeting->end_step(soon());
      if (status.ok()) status = meeting->end_step(soon());
      EXPECT_FAILS(status, StatusCode::kPeerLost, "rank 0 'm0'");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, ShmMeetingTest, ::testing::Values(Way::kProcess, Way::kName),
                         [](const auto& way) {
                           return way.param == Way::kProcess ? "Process" : "Name";
                         });

// Starts a rank of a world of three whose last member never joins. It lives until it is killed.
pid_t start_rank(int rank, const std::string& url, Way way) {
  const pid_t child = testing::fork_child();
  if (child != 0) return child;
  auto store = open_store(url, system_runtime());
  const World world = {.generation = 5, .rank = rank, .members = testing::members_named(3)};
  if (store.ok()) (void)ShmMeeting::join(world, **store, kNoDeadline, {}, way);
  _exit(0);
}

// Kills ranks 0 and 1 after both have joined. The segment is the one that they had published.
class ShmMeetingProcesses : public ::testing::Test {
 protected:
  void join_and_die(Way way) {
    const pid_t ranks[] = {start_rank(0, url_, way), start_rank(1, url_, way)};
    ASSERT_OK(store_->wait_change("comm/", 1, soon()));
    ASSERT_OK_AND_ASSIGN(const std::vector<Entry> told, store_->list("comm/"));
    ASSERT_OK_AND_ASSIGN(segment_, way == Way::kName
                                       ? shm::Segment::open(told.at(0).value, kKind, kLayoutVersion)
                                       : open_segment(shm::segment_place_of(told.at(0).value),
                                                      kKind, kLayoutVersion));
    ASSERT_OK_AND_ASSIGN(const ShmConfig config, read_config(segment_, world_));
    const ShmView view(segment_.data(), config);
    while (view.words(1).joined.load() == 0) std::this_thread::yield();
    for (const pid_t rank : ranks) {
      kill(rank, SIGKILL);
      waitpid(rank, nullptr, 0);
    }
  }

  static constexpr auto kKind = shm::SegmentKind::kCommunicator;
  const World world_ = {.generation = 5, .rank = 1, .members = testing::members_named(3)};
  const TempFolder folder_;
  const std::string url_ = "file://" + folder_.path();
  const std::unique_ptr<Store> store_ = open_store(url_, system_runtime()).value();
  shm::Segment segment_;
};

TEST_F(ShmMeetingProcesses, NobodyTakesTheRankOfOneWhoIsGone) {
  join_and_die(Way::kName);
  EXPECT_FAILS(ShmMeeting::join(world_, *store_, soon(), {}, Way::kName), StatusCode::kConflict,
               "another process joined as this rank");
  segment_.unlink();
}

TEST_F(ShmMeetingProcesses, WhoComesAfterTheDeathOfRankZeroIsTold) {
  join_and_die(Way::kProcess);
  World third = world_;
  third.rank = 2;
  EXPECT_FAILS(ShmMeeting::join(third, *store_, soon(), {}, Way::kProcess), StatusCode::kPeerLost,
               "rank 0 'm0' has died");
}

}  // namespace
}  // namespace ffdl::comm
