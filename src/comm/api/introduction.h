#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comm/api/host_identity.h"
#include "ffdl/comm/communicator.h"

// Describes what each member publishes before the members connect, and what follows from it.
namespace ffdl::comm {

struct Introduction {
  Backend backend = Backend::kAuto;
  bool loopback = true;  // it has given no address that other hosts can reach
  bool tls = false;      // it encrypts its connections
  HostIdentity host{};
  std::string job{};  // World::job
};

std::string to_record(const Introduction& introduction);
Result<Introduction> from_record(std::string_view record);

// Returns the host of each rank. Hosts are numbered from 0 in the order of ranks.
std::vector<int> hosts_of(const std::vector<Introduction>& members);

// Returns whether members that asked for `backend` meet in shared memory. kShm and kDeviceShm
// always do, kAuto and kNccl on one host. All others use links.
bool by_memory(Backend backend, bool one_host);

// Returns whether ranks of one host may use shared memory with `backend`.
bool may_share_memory(Backend backend);

// Checks that all members are of the job of `world`, and want the same backend and encryption.
// Errors: kCorrupt (one is of another job), kInvalidArgument.
Status check_agreement(const World& world, const std::vector<Introduction>& members);

// Checks that members that agree have their backend built, and can reach each other by it. Errors:
// kInvalidArgument, kUnimplemented.
Status check_reach(const World& world, const std::vector<Introduction>& members);

}  // namespace ffdl::comm
