#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "cuda/device_arrays.h"
#include "ffdl/comm/communicator.h"
#include "support/times.h"

// Tests the communicators' operations on numbers in a GPU's memory.
namespace ffdl::testing {

// Owns numbers in the GPU's memory; those of rank r are r, r + 1, ..
struct DeviceNumbers {
  DeviceNumbers(uint64_t count, int rank) : values(count) {
    for (uint64_t i = 0; i < count; ++i) values[i] = static_cast<float>(rank + static_cast<int>(i));
    auto made = on_device(values.data(), count * sizeof(float));
    EXPECT_OK(made);
    if (made.ok()) memory = std::move(made).value();
  }
  Buffer part(uint64_t begin, uint64_t count) {
    return {memory.get() + begin * sizeof(float), count, DType::kFloat32};
  }
  Buffer all() { return part(0, values.size()); }
  void write() {
    EXPECT_OK(
        base::copy_on_device(memory.get(), values.data(), values.size() * sizeof(float), nullptr));
    EXPECT_OK(base::wait_for_device(nullptr));
  }
  const std::vector<float>& read() {
    EXPECT_OK(to_host(values.data(), memory.get(), values.size() * sizeof(float)));
    return values;
  }
  std::vector<float> values;
  base::DeviceMemory memory;
};

// Checks the result of each operation, in a world of any size.
inline void run_every_operation(Communicator& communicator, int rank) {
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

}  // namespace ffdl::testing
