#pragma once

#include <span>
#include <vector>

#include "base/device_side.h"
#include "base/limits.h"
#include "elastic/step/squared_norm.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::elastic {

// Computes squared_norm() and squared_distance() of buffers in a GPU's memory, with the same bits.
// The GPU adds up each block in the processor's order, and the processor adds these sums.
// Threads: one at a time. Owns: the sums of some blocks, on the GPU and pinned. Blocks: until the
// GPU has finished the work of its default stream. Errors: those of Gpu.
class DeviceNorm {
 public:
  // Computes a first block, so that late loading by CUDA succeeds or fails here. The sums of
  // `blocks_at_once` blocks are copied to the host together.
  static Result<DeviceNorm> create(const base::Gpu& gpu,
                                   uint64_t blocks_at_once = base::kDeviceNormBlocks);

  Result<double> squared_norm(std::span<const Buffer> buffers, BlockSample sample = {});
  Result<double> squared_distance(std::span<const Buffer> buffers, std::span<const Buffer> other,
                                  BlockSample sample = {});

 private:
  // Blocks of a buffer whose sums are in transit.
  struct Part {
    BlockPicks picks{};
    uint64_t begin = 0;  // first of the picks
    uint64_t count = 0;
  };

  DeviceNorm(const base::Gpu& gpu, uint64_t blocks_at_once)
      : gpu_(gpu), blocks_at_once_(blocks_at_once) {}
  Result<double> norm_of(std::span<const Buffer> buffers, std::span<const Buffer> other,
                         BlockSample sample);
  Status settle(uint64_t round);

  base::Gpu gpu_;
  uint64_t blocks_at_once_;
  base::SideMemory lanes_;  // on the GPU
  base::SideMemory copy_;   // on the host
  std::vector<Part> parts_;
  uint64_t used_ = 0;     // blocks of the lanes in use
  double sum_ = 0;        // of completed buffers
  double of_buffer_ = 0;  // of the buffer in progress
};

}  // namespace ffdl::elastic
