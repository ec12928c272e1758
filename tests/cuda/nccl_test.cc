#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "comm/nccl_library.h"
#include "cuda/device_arrays.h"
#include "ffdl/communicator.h"
#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/times.h"

// The communicator over GPUs with NCCL itself; tests/comm/nccl_communicator_test.cc has the rest.
namespace ffdl {
namespace {

using testing::on_each;
using testing::soon;

#define FFDL_SKIP_WITHOUT_NCCL()                                                              \
  FFDL_SKIP_WITHOUT_GPU();                                                                    \
  if (const auto ffdl_nccl = comm::NcclLibrary::load(comm::nccl_places(base::environment())); \
      !ffdl_nccl.ok()) {                                                                      \
    GTEST_SKIP() << ffdl_nccl.status().to_string();                                           \
  }

class NcclOnGpu : public ::testing::Test {
 protected:
  // NCCL 2.30.7 and later take two ranks on one GPU, if they are asked before their first call.
  static void SetUpTestSuite() {
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    setenv("NCCL_MAX_CTAS", "4", 1);
  }

  // Each with a GPU of its own where there are so many. Errors: that of the first that has one.
  static Result<testing::Ranks> connect(uint64_t generation, int count) {
    FFDL_ASSIGN_OR_RETURN(const int device, base::device_in_use());
    const bool enough = base::use_device(count - 1).ok();
    FFDL_RETURN_IF_ERROR(base::use_device(device));
    auto store = open_store("mem://", system_runtime());
    testing::Ranks ranks(static_cast<size_t>(count));
    std::vector<Status> outcomes(ranks.size());
    testing::on_threads(count, [&](int rank) {
      auto made =
          connect_communicator({generation, rank, testing::members_named(count)}, **store, soon(),
                               {.backend = Backend::kNccl, .device = enough ? rank : device});
      outcomes[static_cast<size_t>(rank)] = made.status();
      if (made.ok()) ranks[static_cast<size_t>(rank)] = std::move(made).value();
    });
    for (const Status& outcome : outcomes) FFDL_RETURN_IF_ERROR(outcome);
    return ranks;
  }
};

// Numbers in the GPU's memory, of which those of rank r are r, r + 1, ..
struct DeviceNumbers {
  DeviceNumbers(uint64_t count, int rank) : values(count) {
    for (uint64_t i = 0; i < count; ++i) values[i] = static_cast<float>(rank + static_cast<int>(i));
    auto made = testing::on_device(values.data(), count * sizeof(float));
    EXPECT_OK(made);
    if (made.ok()) memory = std::move(made).value();
  }
  Buffer part(uint64_t begin, uint64_t count) {
    return {memory.get() + begin * sizeof(float), count, DType::kFloat32};
  }
  Buffer all() { return part(0, values.size()); }
  const std::vector<float>& read() {
    EXPECT_OK(testing::to_host(values.data(), memory.get(), values.size() * sizeof(float)));
    return values;
  }
  std::vector<float> values;
  base::DeviceMemory memory;
};

// What each operation must leave, in a world of any size.
void run_every_operation(Communicator& communicator, int rank) {
  const int ranks = communicator.world().size();
  const auto n = static_cast<uint64_t>(ranks);
  constexpr uint64_t kBlock = 1001;
  DeviceNumbers sum(kBlock, rank);
  const Buffer list[] = {sum.part(0, 17), sum.part(17, kBlock - 17)};
  ASSERT_OK(communicator.all_reduce(list, ReduceOp::kSum, soon()));
  const std::vector<float>& summed = sum.read();
  const auto ranks_sum = static_cast<float>(ranks * (ranks - 1) / 2);
  for (uint64_t i = 0; i < kBlock; ++i) {
    ASSERT_EQ(summed[i], ranks_sum + static_cast<float>(n * i));
  }
  DeviceNumbers one(kBlock, rank);
  DeviceNumbers whole(n * kBlock, 0);
  ASSERT_OK(communicator.all_gather(one.all(), whole.all(), soon()));
  DeviceNumbers exchanged(n * kBlock, 0);
  DeviceNumbers scattered(kBlock, 99);
  ASSERT_OK(communicator.scatter(whole.all(), scattered.all(), 0, soon()));
  ASSERT_OK(communicator.all_to_all(whole.all(), exchanged.all(), soon()));
  whole.read();
  scattered.read();
  exchanged.read();
  const size_t last = (n - 1) * kBlock;
  for (uint64_t i = 0; i < kBlock; ++i) {
    const auto of_rank = [i](int giver) { return static_cast<float>(giver + static_cast<int>(i)); };
    ASSERT_EQ(whole.values[last + i], of_rank(ranks - 1));
    ASSERT_EQ(scattered.values[i], of_rank(rank));
    ASSERT_EQ(exchanged.values[last + i], of_rank(rank));
  }
  DeviceNumbers given(n * kBlock, rank);
  DeviceNumbers taken(kBlock, 0);
  ASSERT_OK(communicator.reduce_scatter(given.all(), taken.all(), ReduceOp::kMax, soon()));
  EXPECT_EQ(taken.read()[0], static_cast<float>(ranks - 1 + rank * static_cast<int>(kBlock)));
  ASSERT_OK(communicator.broadcast(one.all(), ranks - 1, soon()));
  EXPECT_EQ(one.read()[0], static_cast<float>(ranks - 1));
  float host = 1;
  ASSERT_OK(communicator.all_reduce({&host, 1}, ReduceOp::kSum, soon()));
  EXPECT_EQ(host, static_cast<float>(ranks));
}

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

}  // namespace
}  // namespace ffdl
