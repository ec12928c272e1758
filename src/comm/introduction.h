#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comm/host_identity.h"
#include "ffdl/communicator.h"

// What each member tells the others before they connect, and what follows from it.
namespace ffdl::comm {

struct Introduction {
  Backend backend = Backend::kAuto;
  bool loopback = true;  // it has given no address
  HostIdentity host{};
};

std::string to_record(const Introduction& introduction);
// Errors: kCorrupt.
Result<Introduction> from_record(std::string_view record);

// The host of each rank, counted from 0 in the order of ranks.
std::vector<int> hosts_of(const std::vector<Introduction>& members);

// Whether members that asked for `backend` meet in shared memory, if that of one host is all they
// need: over links otherwise.
bool by_memory(Backend backend, bool one_host);

// All agree on the backend, it is built, and by it they can reach each other.
// Errors: kInvalidArgument, kUnimplemented.
Status check_members(const World& world, const std::vector<Introduction>& members);

}  // namespace ffdl::comm
