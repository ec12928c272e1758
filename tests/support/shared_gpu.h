#pragma once

#include <string>

namespace ffdl::testing {

// Returns the environment, as NAME=VALUE words, for a rank that shares its GPU with others under
// that version of NCCL. Each rank is a process: NCCL reads this once. Before 2.30.7 a rank must
// appear to be on a host of its own; the ranks use sockets then.
inline std::string shared_gpu_environment(int nccl_version, int rank) {
  constexpr int kTakesSeveral = 23007;
  if (nccl_version < kTakesSeveral) return "NCCL_HOSTID=ffdl-" + std::to_string(rank);
  return "NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_NVLS_ENABLE=0 NCCL_MAX_CTAS=4";
}

}  // namespace ffdl::testing
