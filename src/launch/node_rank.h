#pragma once

#include <map>
#include <optional>
#include <string>

#include "ffdl/export.h"
#include "ffdl/status.h"

namespace ffdl::launch {

// The rank of this node, and the variable that has it.
struct NodeRank {
  int rank = 0;
  std::string variable{};
};

// Returns the rank of this node where another launcher has started one `ffdl run` per node:
// torchrun (PET_NODE_RANK, GROUP_RANK), Slurm, Open MPI, launchers that use PMI, and indexed jobs
// of Kubernetes. The first variable of this order that is set counts. None: no such variable is
// set. Errors: kInvalidArgument (it is not a number from 0 on, or the launcher started several
// processes
//         on this host).
FFDL_API Result<std::optional<NodeRank>> find_node_rank(
    const std::map<std::string, std::string>& variables);

// Returns whether `host`, a name or a number without brackets, has an address of this host. The
// node of a rendezvous endpoint's host is node 0 where no rank is given.
// Blocks: as long as the machine's resolver, unless the host is a number.
FFDL_API bool is_endpoint_host(const std::string& host);

}  // namespace ffdl::launch
