#pragma once

#include <span>
#include <vector>

#include "base/device_side.h"
#include "base/limits.h"
#include "elastic/squared_norm.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::elastic {

// squared_norm() and squared_distance() of buffers in a GPU's memory, with the same bits: the GPU
// adds up what it has in the order of the processor, block by block, and the processor these sums.
// Threads: one at a time. Owns: the sums of some blocks, there and pinned. Blocks: until the GPU
// has done what its default stream was given. Errors: those of Gpu.
class DeviceNorm {
 public:
  // With a first block, so that what CUDA loads late is there, or is missing now. The sums of so
  // many blocks come to the host at once.
  static Result<DeviceNorm> create(const base::Gpu& gpu,
                                   uint64_t blocks_at_once = base::kDeviceNormBlocks);

  Result<double> squared_norm(std::span<const Buffer> buffers, BlockSample sample = {});
  Result<double> squared_distance(std::span<const Buffer> buffers, std::span<const Buffer> other,
                                  BlockSample sample = {});

 private:
  // Some of the blocks of a buffer, whose sums are on their way.
  struct Part {
    BlockPicks picks{};
    uint64_t begin = 0;  // of the picks
    uint64_t count = 0;
  };

  DeviceNorm(const base::Gpu& gpu, uint64_t blocks_at_once)
      : gpu_(gpu), blocks_at_once_(blocks_at_once) {}
  Result<double> norm_of(std::span<const Buffer> buffers, std::span<const Buffer> other,
                         BlockSample sample);
  Status settle(uint64_t round);

  base::Gpu gpu_;
  uint64_t blocks_at_once_;
  base::SideMemory lanes_;  // of the GPU
  base::SideMemory copy_;   // of the host
  std::vector<Part> parts_;
  uint64_t used_ = 0;     // of the lanes, in blocks
  double sum_ = 0;        // of the buffers before
  double of_buffer_ = 0;  // of the one that is being read
};

}  // namespace ffdl::elastic
