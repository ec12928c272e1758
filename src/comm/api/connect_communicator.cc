#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "base/env.h"
#include "base/errors.h"
#include "base/launcher_watch.h"
#include "base/limits.h"
#include "comm/api/failure_notice.h"
#include "comm/api/hierarchical_communicator.h"
#include "comm/api/interruptible_store.h"
#include "comm/api/introduction.h"
#include "comm/api/share_trial.h"
#include "comm/gpu/nccl/communicator.h"
#include "comm/gpu/shm_communicator.h"
#include "comm/operation/rendezvous.h"
#include "comm/operation/request.h"
#include "comm/shm/communicator.h"
#include "net/address.h"
#include "net/local_address.h"

namespace ffdl {
namespace comm {
namespace {

using base::invalid_argument;

constexpr const char* kLoopback = "127.0.0.1";

Status check_options(const World& world, const CommunicatorOptions& options) {
  if (options.backend == Backend::kLocal) {
    return invalid_argument(
        "connect generation {}: the local backend connects no processes; call "
        "make_local_communicators",
        world.generation);
  }
  if (options.backend > Backend::kDeviceShm) {
    return invalid_argument("connect generation {}: backend {} is unknown; use one of Backend",
                            world.generation, static_cast<uint32_t>(options.backend));
  }
  if (options.gpu_worlds > GpuWorlds::kReuse) {
    return invalid_argument("connect generation {}: gpu_worlds {} is unknown; use one of GpuWorlds",
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

// Returns whether no other host can reach `address`.
bool is_loopback(const std::string& address) {
  return address.empty() || net::Address{address, 0}.is_loopback();
}

Result<std::unique_ptr<WatchedCommunicator>> connect_shm(const World& world, Store& store,
                                                         Time deadline,
                                                         const CommunicatorOptions& options,
                                                         ShmMeeting::Way way) {
  FFDL_ASSIGN_OR_RETURN(std::unique_ptr<ShmMeeting> meeting,
                        ShmMeeting::join(world, store, deadline, options, way));
  return std::unique_ptr<WatchedCommunicator>(new ShmCommunicator(world, std::move(meeting)));
}

// Returns the same way at all ranks of a host.
ShmMeeting::Way way_inside(const World& world, const std::vector<Introduction>& members) {
  const HostIdentity& own = members[static_cast<size_t>(world.rank)].host;
  const bool apart = std::ranges::any_of(members, [&](const Introduction& member) {
    return member.host.memory == own.memory && member.host.processes != own.processes;
  });
  return apart ? ShmMeeting::Way::kName : ShmMeeting::Way::kProcess;
}

// Returns the members on this rank's host as a world.
World inside_of(const World& world, const std::vector<int>& hosts) {
  World inside = {.generation = world.generation, .rank = 0, .members = {}, .job = world.job};
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
      may_share_memory(options.backend) && inside.size() > 1 && same_subtrees(hosts);
  std::unique_ptr<Communicator> host;
  if (two_levels) {
    FFDL_ASSIGN_OR_RETURN(
        host, connect_shm(inside, store, deadline, options, way_inside(world, members)));
  }
  const bool by_gloo = options.backend == Backend::kGloo;
  const auto connect_links = by_gloo ? connect_gloo_links : connect_tcp_links;
  FFDL_ASSIGN_OR_RETURN(
      MetLinks met,
      connect_links(world, store, deadline, options.address.empty() ? kLoopback : options.address,
                    options));
  std::unique_ptr<LinkedCommunicator> communicator;
  if (two_levels) {
    communicator =
        std::make_unique<HierarchicalCommunicator>(world, std::move(met.links), std::move(host));
  } else {
    communicator = std::make_unique<LinkedCommunicator>(world, std::move(met.links),
                                                        by_gloo ? Backend::kGloo : Backend::kTcp);
  }
  // The members have met, so only a new failure can delay the first operation.
  const Time soon = std::min<Time>(deadline, deadline_in(2 * base::kLinkSilenceMax));
  FFDL_RETURN_IF_ERROR(communicator->open(soon));
  // Not before: the others wait for this rank, and the store may be slow. If it is gone by now, the
  // lease ends by itself.
  static_cast<void>(store.end_lease(met.record));
  return std::unique_ptr<WatchedCommunicator>(std::move(communicator));
}

// Connects members that have exchanged these introductions.
Result<std::unique_ptr<WatchedCommunicator>> connect_known(
    const World& world, Store& store, Time deadline, const CommunicatorOptions& options,
    const std::vector<std::string>& records) {
  std::vector<Introduction> introduced;
  for (const std::string& record : records) {
    FFDL_ASSIGN_OR_RETURN(introduced.emplace_back(), from_record(record));
  }
  FFDL_RETURN_IF_ERROR(check_agreement(world, introduced));
  FFDL_ASSIGN_OR_RETURN(const ShareTrial trial,
                        try_shared_memory(world, store, deadline, std::move(introduced)));
  FFDL_RETURN_IF_ERROR(check_reach(world, trial.members));
  const std::vector<int> hosts = hosts_of(trial.members);
  const bool one_host = std::ranges::count(hosts, 0) == std::ssize(hosts);
  Result<std::unique_ptr<WatchedCommunicator>> made =
      by_memory(options.backend, one_host)
          ? connect_shm(world, store, deadline, options, way_inside(world, trial.members))
          : connect_hosts(world, store, deadline, options, trial.members);
  if (!made.ok()) return made;
  // All members have read the records. If the store is gone by now, the leases end by themselves.
  for (const LeaseId lease : trial.leases) static_cast<void>(store.end_lease(lease));
  return made;
}

// Calls connect_known(). Reports its failure to the other members, and ends it if another member
// reports one.
Result<std::unique_ptr<WatchedCommunicator>> connect_with_notice(
    const World& world, Store& store, Time deadline, const CommunicatorOptions& options,
    const std::vector<std::string>& records) {
  // Shared, as the communicator keeps the check. By then it is closed and does nothing.
  const auto notice = std::make_shared<FailureNotice>(world, store, deadline);
  CommunicatorOptions noticing = options;
  noticing.interrupt_check = [notice, check = options.interrupt_check]() -> Status {
    if (check) FFDL_RETURN_IF_ERROR(check());
    return notice->check();
  };
  InterruptibleStore interruptible(store, noticing.interrupt_check);
  auto made = connect_known(world, interruptible, deadline, noticing, records);
  notice->close(made.status());
  return made;
}

// Returns a check that also ends a wait when the launcher of this process has ended.
std::function<Status()> with_launcher(const World& world, std::function<Status()> check) {
  if (!base::launcher_watch().has_launcher()) return check;
  return [world, check = std::move(check)]() -> Status {
    FFDL_RETURN_IF_ERROR(check_launcher(world));
    return check ? check() : Status();
  };
}

// Returns a variable of the launcher; empty: it is not set.
std::string variable(const std::string& name) {
  const auto& variables = base::environment().launcher;
  const auto found = variables.find(name);
  return found == variables.end() ? "" : found->second;
}

std::string chosen_interface() { return variable("FFDL_INTERFACE"); }

// Returns whether FFDL_TLS asks for encryption.
Result<bool> chosen_tls() {
  const std::string value = variable("FFDL_TLS");
  if (value == "1") return true;
  if (value.empty() || value == "0") return false;
  return invalid_argument("read FFDL_TLS: it is '{}'; set it to 1 to encrypt, or to 0", value);
}

}  // namespace
}  // namespace comm

Result<std::string> own_address(const Store& store, const CommunicatorOptions& options) {
  if (!options.address.empty()) return options.address;
  const std::string interface = comm::chosen_interface();
  return interface.empty() ? store.local_address() : net::address_of_interface(interface);
}

Result<std::string> own_address(std::string_view host, uint16_t port) {
  const std::string interface = comm::chosen_interface();
  if (!interface.empty()) return net::address_of_interface(interface);
  return net::address_towards({std::string(host), port});
}

Result<std::unique_ptr<Communicator>> connect_communicator(const World& world, Store& store,
                                                           Time deadline,
                                                           const CommunicatorOptions& given) {
  FFDL_RETURN_IF_ERROR(comm::check_world(world));
  FFDL_RETURN_IF_ERROR(comm::check_options(world, given));
  CommunicatorOptions options = given;
  FFDL_ASSIGN_OR_RETURN(options.address, own_address(store, given));
  FFDL_ASSIGN_OR_RETURN(const bool chosen_tls, comm::chosen_tls());
  options.tls = options.tls || chosen_tls;
  options.interrupt_check = comm::with_launcher(world, given.interrupt_check);
  comm::InterruptibleStore interruptible(store, options.interrupt_check);
  FFDL_ASSIGN_OR_RETURN(comm::HostIdentity host, comm::host_identity());
  const std::string record = comm::to_record({.backend = options.backend,
                                              .loopback = comm::is_loopback(options.address),
                                              .tls = options.tls,
                                              .host = std::move(host),
                                              .job = world.job});
  FFDL_ASSIGN_OR_RETURN(const comm::Told told,
                        comm::exchange_records(world, interruptible, "host", record, deadline));
  FFDL_ASSIGN_OR_RETURN(
      std::unique_ptr<comm::WatchedCommunicator> communicator,
      comm::connect_with_notice(world, store, deadline, options, told.records));
  // All members have read the record. If the store is gone by now, the lease ends by itself.
  static_cast<void>(store.end_lease(told.lease));
  if (options.backend == Backend::kDeviceShm) {
    return comm::DeviceShmCommunicator::connect(world,
                                                {.host = std::move(communicator),
                                                 .side = base::gpu_side(),
                                                 .device = options.device,
                                                 .interrupt_check = options.interrupt_check},
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
       .interrupt_check = options.interrupt_check,
       .gpu_worlds = options.gpu_worlds},
      deadline);
}

}  // namespace ffdl
