#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "comm/gpu/nccl/library.h"
#include "cuda/every_operation.h"
#include "cuda/member_processes.h"
#include "ffdl/comm/communicator.h"
#include "support/ranks.h"
#include "support/shared_gpu.h"
#include "support/status_matchers.h"
#include "support/times.h"

// Tests the communicator over GPUs with NCCL itself; tests/comm/gpu/nccl/communicator_test.cc has
// the rest.
namespace ffdl {
namespace {

using testing::DeviceNumbers;
using testing::on_each;
using testing::run_every_operation;
using testing::soon;

auto load_nccl() { return comm::NcclLibrary::load(comm::nccl_places(base::environment())); }

#define FFDL_SKIP_WITHOUT_NCCL()                             \
  FFDL_SKIP_WITHOUT_GPU();                                   \
  if (const auto ffdl_nccl = load_nccl(); !ffdl_nccl.ok()) { \
    GTEST_SKIP() << ffdl_nccl.status().to_string();          \
  }

class NcclOnGpu : public ::testing::Test {
 protected:
  // NCCL 2.30.7 and later accept ranks of two threads on one GPU, if that is set before their first
  // call. An older one accepts processes only, as in the last test.
  static void SetUpTestSuite() {
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    setenv("NCCL_MAX_CTAS", "4", 1);
  }

  // Connects ranks, each with a GPU of its own if there are enough. Errors: kInvalidArgument if any
  // rank has that, else that of the first that has one.
  static Result<testing::Ranks> connect(uint64_t generation, int count,
                                        GpuWorlds worlds = GpuWorlds::kFresh,
                                        const testing::Ranks& before = {}) {
    FFDL_ASSIGN_OR_RETURN(const int device, base::device_in_use());
    const bool enough = base::use_device(count - 1).ok();
    FFDL_RETURN_IF_ERROR(base::use_device(device));
    auto store = open_store("mem://", system_runtime());
    testing::Ranks ranks(static_cast<size_t>(count));
    std::vector<Status> outcomes(ranks.size());
    testing::on_threads(count, [&](int rank) {
      auto made = connect_communicator(
          {generation, rank, testing::members_named(count)}, **store, soon(),
          {.backend = Backend::kNccl, .device = enough ? rank : device, .gpu_worlds = worlds});
      const auto at = static_cast<size_t>(rank);
      outcomes[at] = made.status();
      if (!made.ok()) return;
      ranks[at] = std::move(made).value();
      outcomes[at] =
          ranks[at]->continue_from(at < before.size() ? before[at].get() : nullptr, soon());
    });
    // When NCCL refuses the world, a rank may first have learned that another one is gone.
    for (const Status& outcome : outcomes) {
      if (outcome.code() == StatusCode::kInvalidArgument) return outcome;
    }
    for (const Status& outcome : outcomes) FFDL_RETURN_IF_ERROR(outcome);
    return ranks;
  }
};

TEST_F(NcclOnGpu, AWorldOfOneRunsEveryOperation) {
  FFDL_SKIP_WITHOUT_NCCL();
  ASSERT_OK_AND_ASSIGN(const testing::Ranks ranks, connect(1, 1));
  on_each(ranks, run_every_operation);
}

TEST_F(NcclOnGpu, TwoRanksRunEveryOperationAndOneSurvivesTheOther) {
  FFDL_SKIP_WITHOUT_NCCL();
  auto connected = connect(1, 2);
  if (connected.status().code() == StatusCode::kInvalidArgument) {
    GTEST_SKIP() << connected.status().to_string();
  }
  ASSERT_OK(connected);
  const testing::Ranks& ranks = *connected;
  on_each(ranks, run_every_operation);
  std::thread shot([&] { ranks[0]->abort({}); });
  on_each(ranks, [](Communicator& communicator, int rank) {
    DeviceNumbers numbers(uint64_t{1} << 20, rank);
    Status status;
    while (status.ok()) status = communicator.all_reduce(numbers.all(), ReduceOp::kMax, soon());
    EXPECT_EQ(status.code(), rank == 0 ? StatusCode::kCancelled : StatusCode::kPeerLost)
        << status.to_string();
  });
  shot.join();
  ASSERT_OK_AND_ASSIGN(const testing::Ranks next, connect(2, 1));
  on_each(next, run_every_operation);
}

// Requires an NCCL that grows and shrinks. The log reports a world that had to connect anew.
TEST_F(NcclOnGpu, AWorldGrowsShrinksAndOutlivesAMember) {
  FFDL_SKIP_WITHOUT_NCCL();
  auto connected = connect(1, 2, GpuWorlds::kReuse);
  if (connected.status().code() == StatusCode::kInvalidArgument) {
    GTEST_SKIP() << connected.status().to_string();
  }
  ASSERT_OK(connected);
  on_each(*connected, run_every_operation);
  ASSERT_OK_AND_ASSIGN(testing::Ranks three, connect(2, 3, GpuWorlds::kReuse, *connected));
  connected->clear();
  on_each(three, run_every_operation);
  ASSERT_OK_AND_ASSIGN(testing::Ranks two, connect(3, 2, GpuWorlds::kReuse, three));
  three.clear();
  on_each(two, run_every_operation);
  ASSERT_OK_AND_ASSIGN(three, connect(4, 3, GpuWorlds::kReuse, two));
  two.clear();
  std::thread shot([&] { three[2]->abort({}); });
  on_each(three, [](Communicator& communicator, int rank) {
    DeviceNumbers numbers(uint64_t{1} << 20, rank);
    while (communicator.all_reduce(numbers.all(), ReduceOp::kMax, soon()).ok()) continue;
  });
  shot.join();
  ASSERT_OK_AND_ASSIGN(two, connect(5, 2, GpuWorlds::kReuse, three));
  on_each(two, run_every_operation);
}

// Runs every operation before and after a suspension, which frees NCCL's memory if NCCL can.
void run_around_a_pause(Communicator& communicator, int rank) {
  run_every_operation(communicator, rank);
  ASSERT_OK(communicator.suspend(soon()));
  DeviceNumbers numbers(1, rank);
  EXPECT_EQ(communicator.all_reduce(numbers.all(), ReduceOp::kMax, soon()).code(),
            StatusCode::kInvalidArgument);
  ASSERT_OK(communicator.resume(soon()));
  run_every_operation(communicator, rank);
}

TEST_F(NcclOnGpu, MemoryIsGivenBackBetweenOperations) {
  FFDL_SKIP_WITHOUT_NCCL();
  ASSERT_OK_AND_ASSIGN(const testing::Ranks alone, connect(1, 1));
  on_each(alone, run_around_a_pause);
  auto two = connect(2, 2);
  if (two.status().code() == StatusCode::kInvalidArgument) return;  // on one GPU
  ASSERT_OK(two);
  on_each(*two, run_around_a_pause);
}

constexpr int kNcclProcesses = 3;

// Runs on one GPU. The last rank is killed; the others go on in a world that is connected anew.
void train_over_nccl_until_lost(int rank, const std::string& url) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store(url, system_runtime()));
  const auto connect = [&](uint64_t generation, int ranks) {
    return connect_communicator({generation, rank, testing::members_named(ranks)}, *store, soon(),
                                {.backend = Backend::kNccl});
  };
  {
    ASSERT_OK_AND_ASSIGN(const auto all, connect(1, kNcclProcesses));
    run_around_a_pause(*all, rank);
    if (rank == kNcclProcesses - 1) kill(getpid(), SIGKILL);
    DeviceNumbers numbers(uint64_t{1} << 20, rank);
    EXPECT_EQ(all->all_reduce(numbers.all(), ReduceOp::kMax, soon()).code(), StatusCode::kPeerLost);
  }
  ASSERT_OK_AND_ASSIGN(const auto left, connect(2, kNcclProcesses - 1));
  run_every_operation(*left, rank);
}

TEST_F(NcclOnGpu, DISABLED_Member) {
  const auto member = testing::started_member();
  if (!member) GTEST_SKIP() << "nobody has started it";
  train_over_nccl_until_lost(member->rank, member->store);
}

// Every NCCL accepts processes that share a GPU, in one way or the other.
TEST_F(NcclOnGpu, ProcessesShareOneGpuAndSurviveOneAnother) {
  FFDL_SKIP_WITHOUT_NCCL();
  const int version = load_nccl().value()->version();
  const TempFolder folder;
  const auto members = testing::start_members(
      "NcclOnGpu.DISABLED_Member", folder, 0, kNcclProcesses,
      [version](int rank) { return testing::shared_gpu_environment(version, rank); });
  for (int rank = 0; rank < kNcclProcesses; ++rank) {
    StartedProgram& member = *members[static_cast<size_t>(rank)];
    EXPECT_EQ(member.wait(), rank == kNcclProcesses - 1 ? -SIGKILL : 0) << member.output();
  }
}

}  // namespace
}  // namespace ffdl
