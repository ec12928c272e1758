#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "cuda/every_operation.h"
#include "cuda/member_processes.h"
#include "ffdl/comm/communicator.h"
#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

// Tests communicators through memory that GPUs share, with a GPU;
// tests/comm/gpu/shm_communicator_test.cc has the rest.
namespace ffdl {
namespace {

using testing::DeviceNumbers;
using testing::on_each;
using testing::run_every_operation;
using testing::soon;

Result<std::unique_ptr<Communicator>> connect(uint64_t generation, int rank, int ranks,
                                              const std::string& store) {
  FFDL_ASSIGN_OR_RETURN(const auto opened, open_store(store, system_runtime()));
  return connect_communicator({generation, rank, testing::members_named(ranks)}, *opened, soon(),
                              {.backend = Backend::kDeviceShm});
}

// Compares sums of GPU memory with those of host memory, which have the same bits. The numbers are
// longer than a stage.
void add_up_alike(Communicator& communicator, int rank) {
  constexpr uint64_t kCount = (uint64_t{5} << 20) + 3;
  DeviceNumbers numbers(kCount, 0);
  for (uint64_t i = 0; i < kCount; ++i) {
    numbers.values[i] = std::sin(static_cast<float>(i) * static_cast<float>(rank + 1));
  }
  numbers.write();
  std::vector<float> expected = numbers.values;
  ASSERT_OK(communicator.all_reduce({expected.data(), kCount}, ReduceOp::kMean, soon()));
  ASSERT_OK(communicator.all_reduce(numbers.all(), ReduceOp::kMean, soon()));
  EXPECT_EQ(numbers.read(), expected);
  if (rank > 1) return;
  ASSERT_OK(rank == 0 ? communicator.send(numbers.all(), 1, soon())
                      : communicator.recv(numbers.all(), 0, soon()));
  EXPECT_EQ(numbers.read(), expected);
}

TEST(DeviceShmOnGpu, ThreadsShareOneGpu) {
  FFDL_SKIP_WITHOUT_GPU();
  const TempFolder folder;
  for (const int count : {1, 3}) {
    testing::Ranks ranks(static_cast<size_t>(count));
    testing::on_threads(count, [&](int rank) {
      auto made = connect(static_cast<uint64_t>(count), rank, count, "file://" + folder.path());
      ASSERT_OK(made);
      ranks[static_cast<size_t>(rank)] = std::move(made).value();
    });
    on_each(ranks, run_every_operation);
    if (count > 1) on_each(ranks, add_up_alike);
  }
}

constexpr int kProcesses = 3;

// Rank 2 is killed in the middle of training; the others go on without it.
void train_until_lost(int rank, const std::string& store) {
  {
    ASSERT_OK_AND_ASSIGN(const auto all, connect(1, rank, kProcesses, store));
    run_every_operation(*all, rank);
    add_up_alike(*all, rank);
    if (rank == 2) kill(getpid(), SIGKILL);
    DeviceNumbers numbers(uint64_t{1} << 20, rank);
    EXPECT_EQ(all->all_reduce(numbers.all(), ReduceOp::kMax, soon()).code(), StatusCode::kPeerLost);
  }
  ASSERT_OK_AND_ASSIGN(const auto left, connect(2, rank, kProcesses - 1, store));
  run_every_operation(*left, rank);
}

TEST(DeviceShmOnGpu, DISABLED_Member) {
  const auto member = testing::started_member();
  if (!member) GTEST_SKIP() << "nobody has started it";
  train_until_lost(member->rank, member->store);
}

TEST(DeviceShmOnGpu, ProcessesShareOneGpuAndSurviveOneAnother) {
  FFDL_SKIP_WITHOUT_GPU();
  const TempFolder folder;
  const auto others =
      testing::start_members("DeviceShmOnGpu.DISABLED_Member", folder, 1, kProcesses);
  train_until_lost(0, "file://" + folder.path());
  EXPECT_EQ(others[0]->wait(), 0) << others[0]->output();
  EXPECT_EQ(others[1]->wait(), -SIGKILL) << others[1]->output();
}

}  // namespace
}  // namespace ffdl
