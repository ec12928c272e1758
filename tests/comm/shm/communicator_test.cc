#include "comm/shm/communicator.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/limits.h"
#include "support/fork_child.h"
#include "support/rank_processes.h"
#include "support/sanitized.h"
#include "support/status_matchers.h"
#include "support/stop_process.h"
#include "support/times.h"

namespace ffdl::comm {
namespace {

using namespace std::chrono_literals;
using testing::exit_code;
using testing::soon;

constexpr uint64_t kElements = 100'000;

// Runs ranks as processes, which can be killed and stopped. tests/conformance tests the documented
// behaviour.
class ShmProcesses : public testing::RankProcesses {};

Status sum_of_ranks(Communicator& communicator, uint64_t count) {
  std::vector<float> values(count, static_cast<float>(communicator.world().rank + 1));
  FFDL_RETURN_IF_ERROR(
      communicator.all_reduce({values.data(), count, DType::kFloat32}, ReduceOp::kSum, soon()));
  const auto ranks = communicator.world().size();
  const auto expected = static_cast<float>(ranks * (ranks + 1) / 2);
  for (const float value : values) {
    if (value != expected) return Status(StatusCode::kInternal, "a wrong sum");
  }
  return {};
}

TEST_F(ShmProcesses, AddUp) {
  constexpr int kRanks = 3;
  const auto body = [](Communicator& communicator) {
    for (const uint64_t count : {1U, 1000U, 300'001U}) {
      if (!sum_of_ranks(communicator, count).ok()) return 1;
    }
    return communicator.barrier(soon()).ok() ? 0 : 2;
  };
  std::vector<pid_t> children;
  for (int rank = 0; rank < kRanks; ++rank) children.push_back(start(rank, kRanks, body));
  for (const pid_t child : children) EXPECT_EQ(exit_code(child), 0);
}

// Sums until a rank is killed. Returns 0 if that is reported as the loss of a peer and no sum was
// wrong.
int sum_until_lost(Communicator& communicator) {
  while (true) {
    const Status status = sum_of_ranks(communicator, kElements);
    if (status.ok()) continue;
    return status.code() == StatusCode::kPeerLost ? 0 : static_cast<int>(status.code());
  }
}

TEST_F(ShmProcesses, AKilledRankIsLostAtOnce) {
  const pid_t victim = start(2, 3, sum_until_lost);
  const pid_t other = start(1, 3, sum_until_lost);
  ASSERT_OK_AND_ASSIGN(const auto communicator, connect(0, 3));
  for (int i = 0; i < 5; ++i) ASSERT_OK(sum_of_ranks(*communicator, kElements));
  kill(victim, SIGKILL);
  const Time killed = std::chrono::steady_clock::now();
  EXPECT_EQ(sum_until_lost(*communicator), 0);
  // Far from any deadline: the kernel reports the death, without a time-out.
  EXPECT_LT(std::chrono::steady_clock::now() - killed, 30s);
  EXPECT_EQ(exit_code(victim), -SIGKILL);
  EXPECT_EQ(exit_code(other), 0);
}

TEST_F(ShmProcesses, AStoppedRankIsATimeout) {
  const pid_t victim = start(1, 2, sum_until_lost);
  ASSERT_OK_AND_ASSIGN(const auto communicator, connect(0, 2));
  ASSERT_OK(sum_of_ranks(*communicator, kElements));
  testing::stop_process(victim);
  Status status;
  // It may have taken part in the next sum before.
  while (status.ok()) {
    std::vector<float> values(kElements, 1.0F);
    status = communicator->all_reduce({values.data(), kElements, DType::kFloat32}, ReduceOp::kSum,
                                      deadline_in(200ms));
  }
  EXPECT_FAILS(status, StatusCode::kTimeout, "rank 1 'm1' had not arrived");
  kill(victim, SIGCONT);
  EXPECT_EQ(exit_code(victim), 0);
}

Status sum_in_place(Communicator& communicator, SharedMemory& memory, Time deadline) {
  auto* const values = reinterpret_cast<float*>(memory.data());
  std::fill_n(values, kElements, static_cast<float>(communicator.world().rank + 1));
  FFDL_RETURN_IF_ERROR(
      communicator.all_reduce({values, kElements, DType::kFloat32}, ReduceOp::kSum, deadline));
  const auto ranks = communicator.world().size();
  const auto expected = static_cast<float>(ranks * (ranks + 1) / 2);
  const bool whole =
      std::all_of(values, values + kElements, [=](float value) { return value == expected; });
  return whole ? Status() : Status(StatusCode::kInternal, "a wrong sum");
}

Result<std::shared_ptr<SharedMemory>> registered_memory(Communicator& communicator) {
  FFDL_ASSIGN_OR_RETURN(auto memory, SharedMemory::allocate(kElements * sizeof(float)));
  FFDL_RETURN_IF_ERROR(communicator.register_memory(memory));
  return memory;
}

int sum_in_place_until_lost(Communicator& communicator) {
  const auto memory = registered_memory(communicator);
  if (!memory.ok()) return 98;
  while (true) {
    const Status status = sum_in_place(communicator, **memory, soon());
    if (status.ok()) continue;
    return status.code() == StatusCode::kPeerLost ? 0 : static_cast<int>(status.code());
  }
}

// A rank may be stopped in the middle of a write to our memory. It may continue after the time-out,
// when we use the memory for something else.
TEST_F(ShmProcesses, WhoIsStoppedInTheMiddleTouchesNothingLater) {
  for (int generation = 1; generation <= 20; ++generation) {
    generation_ = static_cast<uint64_t>(generation);
    const pid_t victim = start(1, 2, sum_in_place_until_lost);
    ASSERT_OK_AND_ASSIGN(const auto communicator, connect(0, 2));
    ASSERT_OK_AND_ASSIGN(const auto memory, registered_memory(*communicator));
    // This sum also waits until the other rank has registered its memory.
    ASSERT_OK(sum_in_place(*communicator, *memory, soon()));
    std::atomic<int> sums = 0;
    std::thread stopper([&] {
      for (int seen = 0; seen < generation; seen = sums.load()) sums.wait(seen);
      testing::stop_process(victim);
    });
    Status status;
    while (status.ok()) {
      const bool may_be_stopped = ++sums >= generation;
      sums.notify_one();
      status = sum_in_place(*communicator, *memory, may_be_stopped ? deadline_in(200ms) : soon());
    }
    EXPECT_FAILS(status, StatusCode::kTimeout, "rank 1");
    sums = generation;  // the stopper ends also after an earlier failure
    sums.notify_one();
    stopper.join();
    std::fill_n(memory->data(), memory->bytes(), std::byte{7});
    kill(victim, SIGCONT);
    EXPECT_EQ(exit_code(victim), 0);
    EXPECT_TRUE(std::all_of(memory->data(), memory->data() + memory->bytes(),
                            [](std::byte b) { return b == std::byte{7}; }));
  }
}

// There is no descriptor for other pages, so the buffer cannot be reclaimed. That is reported
// within a bound.
TEST_F(ShmProcesses, ABufferThatCannotBeTakenBackFromAStoppedRankIsToldInTime) {
  FFDL_SKIP_WITHOUT_DESCRIPTORS_FOR_UBSAN();
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  Status status(StatusCode::kTimeout, "not yet");
  // A rank may be stopped while it does not access the memory.
  while (status.code() == StatusCode::kTimeout && generation_ <= 20) {
    const pid_t victim = start(1, 2, sum_in_place_until_lost);
    ASSERT_OK_AND_ASSIGN(const auto communicator, connect(0, 2));
    ASSERT_OK_AND_ASSIGN(const auto memory, registered_memory(*communicator));
    std::atomic<bool> begun = false;
    std::thread stopper([&] {
      begun.wait(false);
      testing::stop_process(victim);
      const rlimit none = {.rlim_cur = 3, .rlim_max = before.rlim_max};
      EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    });
    const Time start = std::chrono::steady_clock::now();
    do {
      status = sum_in_place(*communicator, *memory, deadline_in(100ms));
      begun = true;
      begun.notify_one();
    } while (status.ok());
    EXPECT_LT(std::chrono::steady_clock::now() - start, base::kTakeBackMax + 30s);
    stopper.join();
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    kill(victim, SIGKILL);
    kill(victim, SIGCONT);
    EXPECT_EQ(exit_code(victim), -SIGKILL);
    ++generation_;
  }
  EXPECT_FAILS(status, StatusCode::kExhausted, "may still write to the buffer when it continues");
}

TEST_F(ShmProcesses, AForkOfAMemberIsNoMember) {
  const pid_t peer = start(1, 2, sum_until_lost);
  {
    ASSERT_OK_AND_ASSIGN(const auto communicator, connect(0, 2));
    const pid_t child = testing::fork_child();
    if (child == 0) {
      _exit(communicator->barrier(soon()).code() == StatusCode::kCancelled ? 0 : 1);
    }
    EXPECT_EQ(exit_code(child), 0);
  }
  EXPECT_EQ(exit_code(peer), 0);
}

}  // namespace
}  // namespace ffdl::comm
