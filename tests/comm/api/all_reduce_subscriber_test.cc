#include "ffdl/comm/all_reduce_subscriber.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/limits.h"
#include "ffdl/comm/communicator.h"
#include "ffdl/diagnose.h"
#include "support/fork_child.h"
#include "support/ranks.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/stop_process.h"
#include "support/temp_folder.h"
#include "support/times.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::on_each;
using testing::soon;

constexpr int kWorldRanks = 3;
constexpr uint64_t kElements = 3'001;  // five of them fill the smallest ring

World world_of(int rank) {
  return {.generation = 6, .rank = rank, .members = testing::members_named(kWorldRanks)};
}

constexpr uint64_t kSmall = base::kSumRingBytesMin;

float given(uint64_t sum, uint64_t i) { return static_cast<float>((sum * 31 + i) % 1000); }

Status add_up(Communicator& communicator, uint64_t sum, uint64_t count = kElements) {
  const auto factor = static_cast<float>(communicator.world().rank + 1);
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = factor * given(sum, i);
  return communicator.all_reduce({values.data(), count}, ReduceOp::kSum, soon());
}

// Receives one sum of `count` elements in two buffers; fails if it is wrong.
Result<uint64_t> hear(AllReduceSubscriber& listener, Time deadline, uint64_t count = kElements) {
  std::vector<float> values(count);
  const uint64_t cut = count / 3;
  const Buffer list[] = {{values.data(), cut}, {values.data() + cut, count - cut}};
  FFDL_ASSIGN_OR_RETURN(const uint64_t sum, listener.next(list, deadline));
  for (uint64_t i = 0; i < count; ++i) {
    if (values[i] != 6 * given(sum, i)) return Status(StatusCode::kInternal, "a wrong sum");
  }
  return sum;
}

class ListenerOfThreads : public ::testing::Test {
 protected:
  void SetUp() override {
    ranks_.resize(kWorldRanks);
    testing::on_threads(kWorldRanks, [&](int rank) {
      auto made = connect_communicator(world_of(rank), *store_, soon());
      ASSERT_OK(made);
      ranks_[static_cast<size_t>(rank)] = std::move(made).value();
    });
  }
  void open(uint64_t ring_bytes = kSmall) {
    on_each(ranks_, [&](Communicator& communicator, int) {
      ASSERT_OK(communicator.open_to_subscribers(*store_, ring_bytes, soon()));
    });
  }
  void add_up_all(uint64_t begin, uint64_t end) {
    on_each(ranks_, [&](Communicator& communicator, int) {
      for (uint64_t sum = begin; sum < end; ++sum) ASSERT_OK(add_up(communicator, sum));
    });
  }
  std::unique_ptr<AllReduceSubscriber> attach() {
    auto listener = AllReduceSubscriber::attach(world_of(0), *store_, soon());
    EXPECT_OK(listener);
    return std::move(listener).value();
  }

  const std::unique_ptr<Store> store_ = open_store("mem://", system_runtime()).value();
  testing::Ranks ranks_;
};

// Goes around the ring many times, one sum after the other.
TEST_F(ListenerOfThreads, HearsEverySumFromItsBeginningOn) {
  open();
  const auto early = attach();
  std::unique_ptr<AllReduceSubscriber> late;
  for (uint64_t sum = 0; sum < 40; ++sum) {
    if (sum == 7) late = attach();
    add_up_all(sum, sum + 1);
    for (AllReduceSubscriber* const listener : {early.get(), late.get()}) {
      if (listener == nullptr) continue;
      ASSERT_OK_AND_ASSIGN(const uint64_t heard, hear(*listener, soon()));
      ASSERT_EQ(heard, sum);
    }
  }
}

TEST_F(ListenerOfThreads, HearsWhileTheMembersGoOn) {
  open(uint64_t{8} << 20);
  const auto listener = attach();
  testing::on_threads(kWorldRanks + 1, [&](int rank) {
    for (uint64_t sum = 0; sum < 300; ++sum) {
      if (rank < kWorldRanks) {
        ASSERT_OK(add_up(*ranks_[static_cast<size_t>(rank)], sum));
      } else {
        ASSERT_OK_AND_ASSIGN(const uint64_t heard, hear(*listener, soon()));
        ASSERT_EQ(heard, sum);
      }
    }
  });
}

TEST_F(ListenerOfThreads, OnlySumsAreToldOfAnySize) {
  open();
  const auto listener = attach();
  on_each(ranks_, [&](Communicator& communicator, int) {
    ASSERT_OK(add_up(communicator, 0, 0));
    ASSERT_OK(communicator.barrier(soon()));
    int32_t value = 1;
    ASSERT_OK(communicator.broadcast({&value, 1, DType::kInt32}, 0, soon()));
    ASSERT_OK(add_up(communicator, 1, 1));
    ASSERT_OK(communicator.all_reduce({&value, 1, DType::kInt32}, ReduceOp::kSum, soon()));
  });
  EXPECT_EQ(hear(*listener, soon(), 0).value(), 0U);
  EXPECT_EQ(hear(*listener, soon(), 1).value(), 1U);
  int32_t value = 0;
  ASSERT_OK_AND_ASSIGN(const uint64_t sum, listener->next({&value, 1, DType::kInt32}, soon()));
  EXPECT_EQ(sum, 2U);
  EXPECT_EQ(value, kWorldRanks);
}

TEST_F(ListenerOfThreads, ATimeoutAndAWrongBufferChangeNothing) {
  open();
  const auto listener = attach();
  EXPECT_FAILS(hear(*listener, deadline_in(10ms)), StatusCode::kTimeout, "no new sum arrived");
  add_up_all(0, 1);
  EXPECT_FAILS(hear(*listener, soon(), 5), StatusCode::kInvalidArgument,
               "sum 0 has 3001 float32; the memory has room for 5 float32");
  std::vector<int32_t> integers(kElements);
  EXPECT_FAILS(listener->next({integers.data(), kElements, DType::kInt32}, soon()),
               StatusCode::kInvalidArgument, "room for 3001 int32");
  EXPECT_FAILS(listener->next({nullptr, kElements}, soon()), StatusCode::kInvalidArgument, "sum 0");
  EXPECT_OK(hear(*listener, soon()));
}

TEST_F(ListenerOfThreads, WhoIsSlowLosesItsPlaceAndMayBeginAnew) {
  open();
  const auto slow = attach();
  add_up_all(0, 6);
  EXPECT_FAILS(hear(*slow, soon()), StatusCode::kExhausted, "sums have overwritten the next sum");
  const auto again = attach();
  add_up_all(6, 7);
  EXPECT_EQ(hear(*again, soon()).value(), 6U);
  EXPECT_FAILS(hear(*slow, soon()), StatusCode::kExhausted, "attach again");
}

// The ring holds one sum, and the members write the next one while this one is read.
TEST_F(ListenerOfThreads, WhoIsOvertakenWhileItReadsIsNotGivenAMixture) {
  constexpr uint64_t kLarge = 900'000;
  open(uint64_t{4} << 20);
  testing::on_threads(kWorldRanks + 1, [&](int rank) {
    if (rank < kWorldRanks) {
      Communicator& communicator = *ranks_[static_cast<size_t>(rank)];
      std::vector<float> in[2] = {std::vector<float>(kLarge, 1), std::vector<float>(kLarge, 2)};
      std::vector<float> out(kLarge);
      for (size_t sum = 0; sum < 60; ++sum) {
        ASSERT_OK(communicator.all_reduce({in[sum % 2].data(), kLarge}, {out.data(), kLarge},
                                          ReduceOp::kSum, soon()));
      }
      communicator.close_to_subscribers();
      return;
    }
    std::vector<float> heard(kLarge);
    std::vector<Buffer> list;  // reading takes longer than the next sum
    for (float& value : heard) list.push_back({&value, 1});
    Status status(StatusCode::kExhausted, "");
    while (status.code() == StatusCode::kExhausted) {
      const auto listener = AllReduceSubscriber::attach(world_of(0), *store_, deadline_in(10ms));
      status = listener.status();
      while (status.ok()) {
        const auto sum = (*listener)->next(list, soon());
        status = sum.status();
        if (!sum.ok()) break;
        const auto wanted = static_cast<float>(kWorldRanks * (1 + *sum % 2));
        ASSERT_TRUE(
            std::all_of(heard.begin(), heard.end(), [=](float value) { return value == wanted; }));
      }
    }
  });
}

TEST_F(ListenerOfThreads, ASumLargerThanTheRingIsToldAsSuch) {
  open();
  const auto listener = attach();
  add_up_all(0, 1);
  constexpr uint64_t kLarge = base::kSumRingBytesMin / sizeof(float);
  on_each(ranks_, [&](Communicator& communicator, int) {
    ASSERT_OK(add_up(communicator, 1, kLarge));
    ASSERT_OK(add_up(communicator, 2));
  });
  EXPECT_OK(hear(*listener, soon()));
  EXPECT_FAILS(hear(*listener, soon(), kLarge), StatusCode::kExhausted,
               "sum 1 of 0 MiB is larger than the ring");
}

TEST_F(ListenerOfThreads, WhatIsWholeIsHeardBeforeTheEndOfTheWorld) {
  open();
  const auto listener = attach();
  add_up_all(0, 2);
  ranks_[1].reset();
  EXPECT_EQ(hear(*listener, soon()).value(), 0U);
  EXPECT_EQ(hear(*listener, soon()).value(), 1U);
  EXPECT_FAILS(hear(*listener, kNoDeadline), StatusCode::kWorldChanged,
               "rank 1 'm1' has left this");
  EXPECT_FAILS(hear(*listener, soon()), StatusCode::kWorldChanged, "rank 1 'm1'");
}

TEST_F(ListenerOfThreads, AFailureIsALostPeer) {
  open();
  const auto listener = attach();
  EXPECT_EQ(ranks_[0]->barrier(deadline_in(10ms)).code(), StatusCode::kTimeout);
  EXPECT_FAILS(hear(*listener, kNoDeadline), StatusCode::kPeerLost, "rank 0 'm0' failed");
}

TEST_F(ListenerOfThreads, ClosingEndsItAndOpeningAgainBeginsAtZero) {
  EXPECT_FAILS(AllReduceSubscriber::attach(world_of(0), *store_, deadline_in(10ms)),
               StatusCode::kTimeout, "have not opened to subscribers");
  open();
  const auto first = attach();
  add_up_all(0, 1);
  on_each(ranks_, [](Communicator& communicator, int) {
    communicator.close_to_subscribers();
    ASSERT_OK(add_up(communicator, 1));
  });
  EXPECT_EQ(hear(*first, soon()).value(), 0U);
  EXPECT_FAILS(hear(*first, soon()), StatusCode::kWorldChanged, "or closed it to subscribers");
  EXPECT_EQ(store_->list("")->size(), 0U);
  open();
  const auto second = attach();
  add_up_all(0, 1);
  EXPECT_EQ(hear(*second, soon()).value(), 0U);
}

TEST(AllReduceSubscriber, WhereThereIsNoneItIsSaid) {
  const auto ranks = make_local_communicators(1, testing::members_named(1)).value();
  const auto store = open_store("mem://", system_runtime()).value();
  EXPECT_FAILS(ranks[0]->open_to_subscribers(*store, kSmall, soon()), StatusCode::kUnimplemented,
               "open to subscribers");
}

// Counts what the members report to the test.
struct Board {
  std::atomic<uint64_t> sums;   // completed by rank 0
  std::atomic<int> told;        // members that received kPeerLost
  std::atomic<uint64_t> heard;  // sums, by all subscribers
};

// Runs members and subscribers as processes, which are killed and stopped.
class ListenerOfProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    void* const memory =
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    board_ = static_cast<Board*>(memory);
    for (int rank = 0; rank < kWorldRanks; ++rank) members_.push_back(start_member(rank));
  }
  void TearDown() override {
    for (const pid_t member : members_) {
      kill(member, SIGKILL);
      waitpid(member, nullptr, 0);
    }
    munmap(board_, sizeof(Board));
    for (const SegmentInfo& segment : *list_segments()) {
      EXPECT_EQ(std::ranges::count(members_, segment.creator_pid), 0) << segment.name;
    }
  }

  // Starts a member that sums until an operation fails, and stays alive.
  pid_t start_member(int rank) {
    const pid_t child = testing::fork_child();
    if (child != 0) return child;
    auto store = open_store(url_, system_runtime());
    if (!store.ok()) _exit(1);
    auto communicator = connect_communicator(world_of(rank), **store, soon());
    if (!communicator.ok()) _exit(2);
    if (!(*communicator)->open_to_subscribers(**store, kSmall, soon()).ok()) _exit(3);
    Status status;
    for (uint64_t sum = 0; status.ok(); ++sum) {
      status = add_up(**communicator, sum);
      if (rank == 0 && status.ok()) board_->sums.fetch_add(1);
    }
    if (status.code() == StatusCode::kPeerLost) board_->told.fetch_add(1);
    while (true) pause();
  }

  pid_t start_listener() {
    const pid_t child = testing::fork_child();
    if (child != 0) return child;
    Status status;
    // On a busy machine the ring may overtake it before its first sum.
    do status = listen_until_it_ends();
    while (status.code() == StatusCode::kExhausted && board_->heard == 0);
    _exit(static_cast<int>(status.code()));
  }

  Status listen_until_it_ends() {
    FFDL_ASSIGN_OR_RETURN(const auto store, open_store(url_, system_runtime()));
    FFDL_ASSIGN_OR_RETURN(const auto listener,
                          AllReduceSubscriber::attach(world_of(0), *store, soon()));
    while (true) {
      FFDL_RETURN_IF_ERROR(hear(*listener, soon()).status());
      board_->heard.fetch_add(1);
    }
  }

  // Waits until the members have made `sums` more sums.
  bool go_on_for(uint64_t sums) {
    const uint64_t wanted = board_->sums.load() + sums;
    const Time patience = deadline_in(60s);
    while (board_->sums.load() < wanted) {
      if (std::chrono::steady_clock::now() > patience) return false;
      sched_yield();
    }
    return true;
  }

  static int exit_code(pid_t child) {
    int outcome = 0;
    waitpid(child, &outcome, 0);
    return WIFEXITED(outcome) ? WEXITSTATUS(outcome) : -WTERMSIG(outcome);
  }

  const TempFolder folder_;
  const std::string url_ = "file://" + folder_.path();
  std::vector<pid_t> members_;
  Board* board_ = nullptr;
};

TEST_F(ListenerOfProcesses, WhoIsStoppedLosesItsPlaceAndTheMembersGoOn) {
  const pid_t listener = start_listener();
  ASSERT_TRUE(comes_true([&] { return board_->heard > 0; }));
  testing::stop_process(listener);
  ASSERT_TRUE(go_on_for(200));
  kill(listener, SIGCONT);
  EXPECT_EQ(exit_code(listener), static_cast<int>(StatusCode::kExhausted));
  EXPECT_TRUE(go_on_for(20));
}

TEST_F(ListenerOfProcesses, AKilledListenerHarmsNobody) {
  for (int turn = 0; turn < 20; ++turn) {
    const pid_t listener = start_listener();
    ASSERT_TRUE(go_on_for(10 + static_cast<uint64_t>(turn)));
    kill(listener, SIGKILL);
    // It was killed, or it had fallen behind the ring before.
    EXPECT_TRUE(exit_code(listener) != static_cast<int>(StatusCode::kInternal));
  }
  EXPECT_TRUE(go_on_for(20));
}

// A subscriber reports the lost peer, whatever it has received before. A subscriber that attaches
// afterwards reports it too.
TEST_F(ListenerOfProcesses, AKilledMemberIsALostPeer) {
  Status status;
  std::thread listening([&] {
    do status = listen_until_it_ends();
    while (status.code() == StatusCode::kExhausted);
  });
  EXPECT_TRUE(comes_true([&] { return board_->heard > 20; }));
  kill(members_[1], SIGKILL);
  const Time patience = deadline_in(60s);
  while (board_->told.load() < 2 && std::chrono::steady_clock::now() < patience) sched_yield();
  EXPECT_EQ(board_->told.load(), 2);
  listening.join();
  EXPECT_FAILS(status, StatusCode::kPeerLost, "before it had contributed to the next sum");
  EXPECT_EQ(listen_until_it_ends().code(), StatusCode::kPeerLost);
}

}  // namespace
}  // namespace ffdl
