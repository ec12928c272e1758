#include "comm/gpu/shm_communicator.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <future>
#include <latch>
#include <random>
#include <vector>

#include "support/device_shm.h"
#include "support/elements.h"
#include "support/fork_child.h"
#include "support/open_descriptors.h"
#include "support/rank_processes.h"
#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/times.h"

// tests/conformance tests the documented behaviour over the same device.
namespace ffdl::comm {
namespace {

using namespace std::chrono_literals;
using testing::connect_device_shm;
using testing::device_shm_ranks;
using testing::Elements;
using testing::exit_code;
using testing::HostDevice;
using testing::members_named;
using testing::on_each;
using testing::on_threads;
using testing::Ranks;
using testing::soon;

constexpr uint64_t kStage = uint64_t{32} << 10;  // the stage of connect_device_shm()

// Connects one rank per device.
Ranks connect_with(std::vector<std::unique_ptr<HostDevice>> devices) {
  const auto members = members_named(static_cast<int>(devices.size()));
  auto hosts = testing::shm_in_one_mapping(1, members);
  Ranks ranks(members.size());
  on_threads(static_cast<int>(members.size()), [&](int rank) {
    const auto at = static_cast<size_t>(rank);
    devices[at]->map_once();
    auto made = connect_device_shm({1, rank, members}, std::move(hosts[at]), soon(),
                                   std::move(devices[at]));
    ASSERT_OK(made);
    ranks[at] = std::move(made).value();
  });
  return ranks;
}

Elements random_elements(DType type, uint64_t count, int rank) {
  Elements elements(type, count);
  std::minstd_rand random(static_cast<unsigned>(rank + 1));
  for (uint64_t i = 0; i < count; ++i) {
    elements.set(i, std::ldexp(static_cast<double>(random()), -static_cast<int>(random() % 40)));
  }
  return elements;
}

// Covers sizes around one and two chunks, which differ by operation.
TEST(DeviceShmCommunicator, HasTheBitsOfTheHostsMemory) {
  for (const int count : {3, 5}) {
    const Ranks devices = device_shm_ranks(1, members_named(count));
    const auto hosts = testing::shm_in_one_mapping(1, members_named(count));
    on_threads(count, [&](int rank) {
      const auto at = static_cast<size_t>(rank);
      const auto n = static_cast<uint64_t>(count);
      const auto both_give = [&](Elements& of_device, Elements& of_host, auto&& operate) {
        ASSERT_OK(operate(*devices[at], of_device.buffer()));
        ASSERT_OK(operate(*hosts[at], of_host.buffer()));
        for (uint64_t i = 0; i < of_host.size(); ++i) ASSERT_EQ(of_device.get(i), of_host.get(i));
      };
      for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
        const uint64_t chunk = kStage / element_bytes(type);
        for (const uint64_t size : {chunk - 1, chunk, chunk + 1, 2 * chunk, 2 * chunk + 1}) {
          Elements summed = random_elements(type, size, rank);
          Elements expected = summed;
          both_give(summed, expected, [](Communicator& communicator, Buffer inout) {
            return communicator.all_reduce(inout, ReduceOp::kMean, soon());
          });
          const uint64_t block = size / n;
          Elements given = random_elements(type, n * block, rank);
          Elements piece(type, block);
          Elements expected_piece(type, block);
          both_give(piece, expected_piece, [&](Communicator& communicator, Buffer out) {
            return communicator.reduce_scatter(given.buffer(), out, ReduceOp::kSum, soon());
          });
        }
      }
    });
  }
}

TEST(DeviceShmCommunicator, MessagesOfWholeBoxesArrive) {
  const Ranks ranks = device_shm_ranks(1, members_named(3));
  for (const uint64_t bytes : {kStage - 1, kStage, kStage + 1, 2 * kStage}) {
    on_each(ranks, [&](Communicator& communicator, int rank) {
      if (rank == 1) return;
      std::vector<int8_t> values(bytes);
      for (uint64_t i = 0; i < bytes && rank == 0; ++i) values[i] = static_cast<int8_t>(i % 101);
      const Buffer buffer = {values.data(), bytes, DType::kInt8};
      ASSERT_OK(rank == 0 ? communicator.send(buffer, 2, soon())
                          : communicator.recv(buffer, 0, soon()));
      for (uint64_t i = 0; i < bytes; ++i) ASSERT_EQ(values[i], static_cast<int8_t>(i % 101));
    });
  }
}

// Enqueues work before and after the copy with the given number.
class SteeredDevice : public HostDevice {
 public:
  SteeredDevice(int number, std::function<void()> before, std::function<void()> after)
      : number_(number), before_(std::move(before)), after_(std::move(after)) {}
  Status copy(void* to, const void* from, uint64_t bytes, base::DeviceStream stream) override {
    const bool is_it = ++count_ == number_;
    auto* const work = static_cast<testing::ThreadStream*>(stream);
    if (is_it) work->enqueue(before_);
    FFDL_RETURN_IF_ERROR(HostDevice::copy(to, from, bytes, stream));
    if (is_it) work->enqueue(after_);
    return {};
  }

 private:
  const int number_;
  const std::function<void()> before_;
  const std::function<void()> after_;
  int count_ = 0;
};

// A rank is at most one chunk ahead of another, and uses the other half for that chunk.
TEST(DeviceShmCommunicator, WhatASlowGpuReadsIsStillThere) {
  std::latch next_is_given(1);
  std::vector<std::unique_ptr<HostDevice>> devices;
  // The root also takes its own data, so its third copy publishes the second chunk.
  devices.push_back(std::make_unique<SteeredDevice>(3, [] {}, [&] { next_is_given.count_down(); }));
  devices.push_back(std::make_unique<SteeredDevice>(1, [&] { next_is_given.wait(); }, [] {}));
  on_each(connect_with(std::move(devices)), [](Communicator& communicator, int rank) {
    constexpr uint64_t kCount = 2 * kStage / sizeof(int32_t);
    std::vector<int32_t> values(kCount);
    for (size_t i = 0; i < kCount && rank == 0; ++i) values[i] = static_cast<int32_t>(i);
    ASSERT_OK(communicator.broadcast({values.data(), kCount, DType::kInt32}, 0, soon()));
    for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(values[i], static_cast<int32_t>(i));
  });
}

// abort() and a failure return when the GPU no longer accesses the buffers, however long that
// takes. The other ranks do not wait for it.
TEST(DeviceShmCommunicator, ADeadlineIsKeptButNotBeforeTheGpuIsDone) {
  std::latch others_know(1);
  std::atomic<bool> is_over = false;
  std::vector<std::unique_ptr<HostDevice>> devices;
  devices.push_back(
      std::make_unique<SteeredDevice>(1, [&] { others_know.wait(); }, [&] { is_over = true; }));
  devices.push_back(std::make_unique<HostDevice>());
  on_each(connect_with(std::move(devices)), [&](Communicator& communicator, int rank) {
    float value = 1;
    const Status status = communicator.all_reduce({&value, 1}, ReduceOp::kSum,
                                                  rank == 0 ? deadline_in(50ms) : soon());
    EXPECT_EQ(status.code(), rank == 0 ? StatusCode::kTimeout : StatusCode::kPeerLost)
        << status.to_string();
    EXPECT_TRUE(rank == 1 || is_over) << "the buffer was given back too early";
    if (rank == 1) others_know.count_down();
  });
}

// The data that it needs of the others is published. Their departure meanwhile does not fail this
// operation.
TEST(DeviceShmCommunicator, WhoWaitsForItsOwnGpuLosesNobody) {
  std::promise<void> looked;
  std::atomic<bool> is_alone = false;
  int looks = 0;
  const auto look = [&]() -> Status {  // called every 100 ms; losses are checked every 5 ms
    if (is_alone && ++looks == 2) looked.set_value();
    return {};
  };
  auto hosts = testing::shm_in_one_mapping(1, members_named(2));
  on_threads(2, [&](int rank) {
    // The wait is bounded, since the check is not called after the operation has ended.
    auto device = std::make_unique<SteeredDevice>(
        1,
        [&, rank] {
          if (rank == 0) looked.get_future().wait_for(10s);
        },
        [] {});
    ASSERT_OK_AND_ASSIGN(
        auto communicator,
        connect_device_shm({1, rank, members_named(2)}, std::move(hosts[static_cast<size_t>(rank)]),
                           soon(), std::move(device),
                           rank == 0 ? look : std::function<Status()>()));
    float value = static_cast<float>(rank);
    EXPECT_OK(communicator->broadcast({&value, 1}, 1, soon()));
    EXPECT_EQ(value, 1);
    communicator.reset();
    if (rank == 1) is_alone = true;
  });
}

class PoorDevice final : public HostDevice {
 public:
  PoorDevice(Status allocates, Status maps)
      : allocates_(std::move(allocates)), maps_(std::move(maps)) {}
  Result<base::ShareableSideMemory> allocate_shareable(uint64_t bytes) override {
    FFDL_RETURN_IF_ERROR(allocates_);
    return HostDevice::allocate_shareable(bytes);
  }
  Result<base::SideMemory> map_shareable(int descriptor, uint64_t bytes) override {
    FFDL_RETURN_IF_ERROR(maps_.ok() || mapped_++ < 2 ? Status() : maps_);
    return HostDevice::map_shareable(descriptor, bytes);
  }

 private:
  const Status allocates_;
  const Status maps_;
  int mapped_ = 0;  // the first one is its own
};

// No rank waits for one that cannot connect.
TEST(DeviceShmCommunicator, WhatOneLacksIsToldToAll) {
  const Status full(StatusCode::kExhausted, "allocate: the GPU's memory is full");
  const Status apart(StatusCode::kUnimplemented, "map: that GPU is not reached");
  for (const auto& [allocates, maps] : {std::pair(full, Status()), std::pair(Status(), apart)}) {
    const Status& lack = allocates.ok() ? maps : allocates;
    const auto members = members_named(3);
    auto hosts = testing::shm_in_one_mapping(1, members);
    on_threads(3, [&](int rank) {
      auto device = rank == 1 ? std::make_unique<PoorDevice>(allocates, maps)
                              : std::make_unique<HostDevice>();
      EXPECT_FAILS(
          connect_device_shm({1, rank, members}, std::move(hosts[static_cast<size_t>(rank)]),
                             soon(), std::move(device)),
          lack.code(), rank == 1 ? lack.message() : "rank 1 'm1' cannot share its GPU's memory");
    });
  }
}

TEST(DeviceShmCommunicator, MoreThanAKernelTakesAreRefused) {
  EXPECT_FAILS(connect_device_shm({1, 0, members_named(9)}, nullptr, soon()),
               StatusCode::kInvalidArgument, "at most 8; use the backend nccl");
}

TEST(DeviceShmCommunicator, KeepsNoDescriptorsAndLeavesNothing) {
  auto hosts = testing::shm_in_one_mapping(1, members_named(1));
  const std::ptrdiff_t before = testing::open_descriptors();
  ASSERT_OK_AND_ASSIGN(const auto communicator,
                       connect_device_shm({1, 0, members_named(1)}, std::move(hosts[0]), soon()));
  EXPECT_EQ(testing::open_descriptors(), before);
  EXPECT_EQ(communicator->backend(), Backend::kDeviceShm);
}

TEST(DeviceShmCommunicator, AForkOfAMemberIsNone) {
  Ranks ranks = device_shm_ranks(1, members_named(1));
  const pid_t child = testing::fork_child();
  if (child == 0) {
    const bool refused = ranks[0]->barrier(soon()).code() == StatusCode::kCancelled;
    ranks[0]->abort({});
    ranks.clear();
    _exit(refused ? 0 : 1);
  }
  EXPECT_EQ(exit_code(child), 0);
  float value = 7;
  EXPECT_OK(ranks[0]->all_reduce({&value, 1}, ReduceOp::kSum, soon()));
}

// Runs ranks as processes, each with a mapping of its own.
class DeviceShmProcesses : public testing::RankProcesses {
 protected:
  Result<std::unique_ptr<Communicator>> connect(const World& world, Store& store) override {
    return connect_device_shm(world, store, soon(), std::move(device_));
  }
  using RankProcesses::connect;
  // Kills this process within the copy with this number.
  void die_in_copy(int number) {
    device_ = std::make_unique<SteeredDevice>(number, [] { kill(getpid(), SIGKILL); }, [] {});
  }

  std::unique_ptr<HostDevice> device_ = std::make_unique<HostDevice>();
};

// Returns 0 if the data is complete, otherwise the code of the failure.
int gather(Communicator& communicator, uint64_t count) {
  const auto ranks = static_cast<uint64_t>(communicator.world().size());
  std::vector<int32_t> mine(count, communicator.world().rank + 1);
  std::vector<int32_t> all(ranks * count);
  const Status status = communicator.all_gather({mine.data(), count, DType::kInt32},
                                                {all.data(), all.size(), DType::kInt32}, soon());
  if (!status.ok()) return static_cast<int>(status.code());
  for (uint64_t i = 0; i < all.size(); ++i) {
    if (all[i] != static_cast<int32_t>(i / count) + 1) return -1;
  }
  return 0;
}

// The rank dies after the agreement, while it takes its part. Its published data stays readable,
// and the others learn of the death in the next operation. Then they go on without it.
TEST_F(DeviceShmProcesses, WhatADeadRankGaveIsStillRead) {
  constexpr int kLost = static_cast<int>(StatusCode::kPeerLost);
  const auto survive = [this](Communicator& communicator) {
    if (gather(communicator, 1000) != 0) return 1;
    if (gather(communicator, 1000) != kLost) return 2;
    generation_ = 2;
    device_ = std::make_unique<HostDevice>();
    const auto next = connect(communicator.world().rank, 2);
    return next.ok() && gather(**next, 30'001) == 0 ? 0 : 3;
  };
  const pid_t other = start(1, 3, survive);
  const pid_t victim = testing::fork_child();
  if (victim == 0) {
    die_in_copy(2);
    const auto communicator = connect(2, 3);
    _exit(communicator.ok() ? gather(**communicator, 1000) : 99);
  }
  ASSERT_OK_AND_ASSIGN(const auto communicator, connect(0, 3));
  EXPECT_EQ(survive(*communicator), 0);
  EXPECT_EQ(exit_code(victim), -SIGKILL);
  EXPECT_EQ(exit_code(other), 0);
}

// The rank dies with a part of the second chunk in its stage, which no other rank takes.
TEST_F(DeviceShmProcesses, ARankThatDiesInTheMiddleIsLost) {
  const auto expect_loss = [](Communicator& communicator) {
    return gather(communicator, 20'000) == static_cast<int>(StatusCode::kPeerLost) ? 0 : 1;
  };
  const pid_t other = start(1, 3, expect_loss);
  const pid_t victim = testing::fork_child();
  if (victim == 0) {
    die_in_copy(5);  // one copy publishes, three take
    const auto communicator = connect(2, 3);
    _exit(communicator.ok() ? gather(**communicator, 20'000) : 99);
  }
  ASSERT_OK_AND_ASSIGN(const auto communicator, connect(0, 3));
  EXPECT_EQ(expect_loss(*communicator), 0);
  EXPECT_EQ(exit_code(victim), -SIGKILL);
  EXPECT_EQ(exit_code(other), 0);
}

}  // namespace
}  // namespace ffdl::comm
