#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "comm/gpu/shm_communicator.h"
#include "comm/shm/communicator.h"
#include "support/guarded_device.h"
#include "support/host_device.h"
#include "support/ranks.h"
#include "support/reduce_threads.h"
#include "support/status_matchers.h"
#include "support/times.h"

// Provides the devices' memory that ranks share, without a GPU.
namespace ffdl::testing {

// Runs reduce_on_device() on a stream of HostDevice, for GuardedMemory, too.
inline Status reduce_on_host_device(ReduceOp op, DType type, std::span<const void* const> inputs,
                                    void* out, uint64_t count, base::DeviceStream stream) {
  FFDL_RETURN_IF_ERROR(comm::check_reduce(op, type, inputs, out, count));
  comm::DeviceReduce reduce{.input_count = static_cast<uint32_t>(inputs.size()),
                            .is_mean = op == ReduceOp::kMean,
                            .out = GuardedMemory::reach(out),
                            .count = count};
  std::ranges::transform(inputs, reduce.inputs, &GuardedMemory::reach);
  static_cast<ThreadStream*>(stream)->enqueue([=] { run_all_threads(op, type, reduce, 3); });
  return {};
}

// Connects one rank of a world on one host. Its stages are small, so most operations take several
// chunks.
inline Result<std::unique_ptr<Communicator>> connect_device_shm(
    const World& world, std::unique_ptr<comm::WatchedCommunicator> host, Time deadline,
    std::unique_ptr<HostDevice> device = std::make_unique<HostDevice>(),
    std::function<Status()> look = {}) {
  return comm::DeviceShmCommunicator::connect(world,
                                              {.host = std::move(host),
                                               .side = std::move(device),
                                               .stage_bytes = uint64_t{32} << 10,
                                               .interrupt_check = std::move(look),
                                               .reduce = reduce_on_host_device},
                                              deadline);
}

// Connects one rank of a world on one host, and finds the other ranks through the store.
inline Result<std::unique_ptr<Communicator>> connect_device_shm(
    const World& world, Store& store, Time deadline,
    std::unique_ptr<HostDevice> device = std::make_unique<HostDevice>(),
    std::function<Status()> look = {}) {
  FFDL_ASSIGN_OR_RETURN(std::unique_ptr<comm::ShmMeeting> meeting,
                        comm::ShmMeeting::join(world, store, deadline, {.interrupt_check = look},
                                               comm::ShmMeeting::Way::kProcess));
  return connect_device_shm(world,
                            std::make_unique<comm::ShmCommunicator>(world, std::move(meeting)),
                            deadline, std::move(device), std::move(look));
}

// Makes ranks that share one mapping of their memory. ThreadSanitizer sees all their accesses then;
// separate mappings have separate addresses.
inline std::vector<std::unique_ptr<comm::ShmCommunicator>> shm_in_one_mapping(
    uint64_t generation, const std::vector<Member>& members) {
  World world = {.generation = generation, .rank = 0, .members = members};
  const comm::ShmConfig config = {.generation = generation,
                                  .job = comm::job_hash(world),
                                  .members = comm::world_hash(world),
                                  .slot_bytes = uint64_t{64} << 10,
                                  .ranks = static_cast<uint32_t>(members.size()),
                                  .reserved = 0};
  auto made = shm::Segment::create({.kind = shm::SegmentKind::kCommunicator,
                                    .layout_version = comm::kLayoutVersion,
                                    .bytes = comm::segment_bytes(config)});
  EXPECT_OK(made);
  const auto segment = std::make_shared<shm::Segment>(std::move(made).value());
  std::vector<std::unique_ptr<comm::ShmCommunicator>> ranks;
  for (; world.rank < world.size(); ++world.rank) {
    auto lock = shm::RoleLock::acquire(segment->fd(), shm::learner_role(world.rank));
    EXPECT_OK(lock);
    auto meeting =
        std::make_unique<comm::ShmMeeting>(world, segment, config, std::move(lock).value());
    ranks.push_back(std::make_unique<comm::ShmCommunicator>(world, std::move(meeting)));
  }
  return ranks;
}

// Makes ranks on devices that share one mapping of their memory.
inline Ranks device_shm_ranks(uint64_t generation, const std::vector<Member>& members) {
  auto hosts = shm_in_one_mapping(generation, members);
  Ranks ranks(members.size());
  on_threads(static_cast<int>(members.size()), [&](int rank) {
    auto device = std::make_unique<HostDevice>();
    device->map_once();
    const auto at = static_cast<size_t>(rank);
    auto made = connect_device_shm({generation, rank, members}, std::move(hosts[at]), soon(),
                                   std::move(device));
    ASSERT_OK(made);
    ranks[at] = std::move(made).value();
  });
  return ranks;
}

}  // namespace ffdl::testing
