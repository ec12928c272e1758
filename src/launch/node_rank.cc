#include "launch/node_rank.h"

#include "base/errors.h"
#include "base/parse_count.h"
#include "net/local_address.h"

namespace ffdl::launch {
namespace {

struct RankVariable {
  const char* rank;
  const char* local_size;  // processes that it started on this host; empty: it starts one
  const char* advice;
};

constexpr RankVariable kRankVariables[] = {
    {"PET_NODE_RANK", "", ""},
    {"SLURM_NODEID", "SLURM_NTASKS_PER_NODE", "srun --ntasks-per-node=1"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "mpirun --map-by ppr:1:node"},
    {"PMI_RANK", "MPI_LOCALNRANKS", "mpirun -ppn 1"},
    {"GROUP_RANK", "LOCAL_WORLD_SIZE", "torchrun --nproc-per-node 1"},
    {"JOB_COMPLETION_INDEX", "", ""},
};

}  // namespace

Result<std::optional<NodeRank>> find_node_rank(
    const std::map<std::string, std::string>& variables) {
  for (const RankVariable& one : kRankVariables) {
    const auto found = variables.find(one.rank);
    if (found == variables.end()) continue;
    const auto rank = base::parse_count(found->second);
    if (!rank) {
      return base::invalid_argument(
          "find the rank of this node: {}='{}' is not a number from 0 on; correct it, or give "
          "--node-rank",
          one.rank, found->second);
    }
    const auto size = variables.find(one.local_size);
    if (size != variables.end() && base::parse_count(size->second).value_or(1) != 1) {
      return base::invalid_argument(
          "find the rank of this node: {}={}, but one 'ffdl run' starts all workers of a node; "
          "start one process per node ({}), or give --node-rank",
          one.local_size, size->second, one.advice);
    }
    return std::optional(NodeRank{*rank, one.rank});
  }
  return std::optional<NodeRank>();
}

bool is_endpoint_host(const std::string& host) { return net::is_this_host(host); }

}  // namespace ffdl::launch
