#include <algorithm>

#include "nlc/device/kernels.h"

namespace nlc {
namespace {

// A mini-batch has some thousand elements. Each has a thread, in blocks that spread over the GPU.
constexpr uint32_t kThreadsPerBlock = 128;
constexpr uint64_t kBlocksMax = 4096;

template <class Job>
__global__ void kernel(const Job job) {
  run_thread(job, uint64_t{blockIdx.x} * blockDim.x + threadIdx.x,
             uint64_t{gridDim.x} * blockDim.x);
}

template <class Job>
cudaError_t launch_threads(const Job& job, cudaStream_t stream) {
  const uint64_t blocks = (job.work() + kThreadsPerBlock - 1) / kThreadsPerBlock;
  if (blocks == 0) return cudaSuccess;
  kernel<<<static_cast<uint32_t>(std::min(blocks, kBlocksMax)), kThreadsPerBlock, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch(const SumRows& sum, cudaStream_t stream) { return launch_threads(sum, stream); }
cudaError_t launch(const TakeLoss& take, cudaStream_t stream) {
  return launch_threads(take, stream);
}
cudaError_t launch(const SpreadRows& spread, cudaStream_t stream) {
  return launch_threads(spread, stream);
}

}  // namespace nlc
