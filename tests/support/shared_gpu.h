#pragma once

#include <string>

namespace ffdl::testing {

// What NCCL of that version needs in the environment of a process to take it as a rank that shares
// its GPU with others, as NAME=VALUE words. Each rank is a process: NCCL reads this once. Before
// 2.30.7 a rank must look as if it were on a host of its own; they talk over sockets then.
inline std::string shared_gpu_environment(int nccl_version, int rank) {
  constexpr int kTakesSeveral = 23007;
  if (nccl_version < kTakesSeveral) return "NCCL_HOSTID=ffdl-" + std::to_string(rank);
  return "NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_NVLS_ENABLE=0 NCCL_MAX_CTAS=4";
}

}  // namespace ffdl::testing
