#include <algorithm>

#include "base/errors.h"
#include "base/limits.h"
#include "comm/device_shm_communicator.h"
#include "comm/hierarchical_communicator.h"
#include "comm/introduction.h"
#include "comm/looking_store.h"
#include "comm/nccl_communicator.h"
#include "comm/rendezvous.h"
#include "comm/shm_communicator.h"

namespace ffdl {
namespace comm {
namespace {

using base::invalid_argument;

constexpr const char* kLoopback = "127.0.0.1";

Status check_options(const World& world, const CommunicatorOptions& options) {
  if (options.backend == Backend::kLocal) {
    return invalid_argument(
        "connect generation {}: the local backend connects nobody; call make_local_communicators",
        world.generation);
  }
  if (options.backend > Backend::kDeviceShm) {
    return invalid_argument("connect generation {}: backend {}; there is no such one",
                            world.generation, static_cast<uint32_t>(options.backend));
  }
  if (options.gpu_worlds > GpuWorlds::kDerived) {
    return invalid_argument("connect generation {}: gpu_worlds {}; there is no such one",
                            world.generation, static_cast<uint32_t>(options.gpu_worlds));
  }
  if (options.slot_bytes >= base::kSlotBytesMin && options.slot_bytes <= base::kSlotBytesMax &&
      options.slot_bytes % 4096 == 0) {
    return {};
  }
  return invalid_argument(
      "connect generation {}: slot_bytes is {}; use {} to {}, in whole pages of 4096",
      world.generation, options.slot_bytes, base::kSlotBytesMin, base::kSlotBytesMax);
}

Result<std::unique_ptr<WatchedCommunicator>> connect_shm(const World& world, Store& store,
                                                         Time deadline,
                                                         const CommunicatorOptions& options,
                                                         ShmMeeting::Way way) {
  FFDL_ASSIGN_OR_RETURN(std::unique_ptr<ShmMeeting> meeting,
                        ShmMeeting::join(world, store, deadline, options, way));
  return std::unique_ptr<WatchedCommunicator>(new ShmCommunicator(world, std::move(meeting)));
}

// The same at all ranks of a host.
ShmMeeting::Way way_inside(const World& world, const std::vector<Introduction>& members) {
  const HostIdentity& own = members[static_cast<size_t>(world.rank)].host;
  const bool apart = std::ranges::any_of(members, [&](const Introduction& member) {
    return member.host.memory == own.memory && member.host.processes != own.processes;
  });
  return apart ? ShmMeeting::Way::kName : ShmMeeting::Way::kProcess;
}

// The members on this rank's host, as a world of their own.
World inside_of(const World& world, const std::vector<int>& hosts) {
  World inside = {.generation = world.generation, .rank = 0, .members = {}};
  for (int rank = 0; rank < world.size(); ++rank) {
    const auto at = static_cast<size_t>(rank);
    if (hosts[at] != hosts[static_cast<size_t>(world.rank)]) continue;
    if (rank == world.rank) inside.rank = inside.size();
    inside.members.push_back(world.members[at]);
  }
  return inside;
}

Result<std::unique_ptr<WatchedCommunicator>> connect_hosts(
    const World& world, Store& store, Time deadline, const CommunicatorOptions& options,
    const std::vector<Introduction>& members) {
  const std::vector<int> hosts = hosts_of(members);
  const World inside = inside_of(world, hosts);
  const bool two_levels =
      options.backend != Backend::kGloo && inside.size() > 1 && same_subtrees(hosts);
  std::unique_ptr<Communicator> host;
  if (two_levels) {
    FFDL_ASSIGN_OR_RETURN(
        host, connect_shm(inside, store, deadline, options, way_inside(world, members)));
  }
  FFDL_ASSIGN_OR_RETURN(
      std::unique_ptr<Links> links,
      connect_links(world, store, deadline, options.address.empty() ? kLoopback : options.address));
  std::unique_ptr<LinkedCommunicator> communicator;
  if (two_levels) {
    communicator =
        std::make_unique<HierarchicalCommunicator>(world, std::move(links), std::move(host));
  } else {
    communicator = std::make_unique<LinkedCommunicator>(world, std::move(links));
  }
  FFDL_RETURN_IF_ERROR(communicator->open(deadline));
  return std::unique_ptr<WatchedCommunicator>(std::move(communicator));
}

// After the members know of each other.
Result<std::unique_ptr<WatchedCommunicator>> connect_known(
    const World& world, Store& store, Time deadline, const CommunicatorOptions& options,
    const std::vector<std::string>& records) {
  std::vector<Introduction> members;
  for (const std::string& record : records) {
    FFDL_ASSIGN_OR_RETURN(members.emplace_back(), from_record(record));
  }
  FFDL_RETURN_IF_ERROR(check_members(world, members));
  const std::vector<int> hosts = hosts_of(members);
  const bool one_host = std::ranges::count(hosts, 0) == std::ssize(hosts);
  if (by_memory(options.backend, one_host)) {
    return connect_shm(world, store, deadline, options, way_inside(world, members));
  }
  return connect_hosts(world, store, deadline, options, members);
}

}  // namespace
}  // namespace comm

Result<std::unique_ptr<Communicator>> connect_communicator(const World& world, Store& store,
                                                           Time deadline,
                                                           const CommunicatorOptions& options) {
  FFDL_RETURN_IF_ERROR(comm::check_world(world));
  FFDL_RETURN_IF_ERROR(comm::check_options(world, options));
  comm::LookingStore looking(store, options.look);
  FFDL_ASSIGN_OR_RETURN(comm::HostIdentity host, comm::host_identity());
  const std::string record = comm::to_record(
      {.backend = options.backend, .loopback = options.address.empty(), .host = std::move(host)});
  FFDL_ASSIGN_OR_RETURN(const comm::Told told,
                        comm::exchange_records(world, looking, "host", record, deadline));
  FFDL_ASSIGN_OR_RETURN(std::unique_ptr<comm::WatchedCommunicator> communicator,
                        comm::connect_known(world, looking, deadline, options, told.records));
  // All have read it. Where the store is gone by now it ends by itself.
  static_cast<void>(store.end_lease(told.lease));
  if (options.backend == Backend::kDeviceShm) {
    return comm::DeviceShmCommunicator::connect(world,
                                                {.host = std::move(communicator),
                                                 .side = base::gpu_side(),
                                                 .device = options.device,
                                                 .look = options.look},
                                                deadline);
  }
  if (options.backend != Backend::kNccl) {
    return std::unique_ptr<Communicator>(std::move(communicator));
  }
  return comm::NcclCommunicator::connect(
      world,
      {.host = std::move(communicator),
       .side = base::gpu_side(),
       .library = comm::NcclLibrary::load(comm::nccl_places(base::environment())),
       .device = options.device,
       .look = options.look,
       .gpu_worlds = options.gpu_worlds},
      deadline);
}

}  // namespace ffdl
