#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/device_side.h"
#include "base/limits.h"
#include "ffdl/ps/update_rule.h"
#include "ps/segment/layout.h"

namespace ffdl::ps {

// The GPU of a server that folds in the GPU's memory, and its kernels. Borrows the side.
struct FoldDevice {
  using Update = Status (*)(const UpdateRuleOptions& options, const UpdateStep& step,
                            const DeviceUpdate& update, void* stream);

  base::Gpu gpu{};
  Update update = &update_on_device;
  uint64_t slice_bytes = base::kDeviceSliceBytes;  // bytes of each array that are fetched at once

  explicit operator bool() const { return static_cast<bool>(gpu); }
};

// Holds one shard's data in a GPU's memory: a copy of its weights and rule state, and room for one
// gradient. It also has two slices of pinned memory. The segment remains the authoritative copy.
// All requests are done in order, on one stream.
// Threads: one at a time, which has called use().
class DeviceFold {
 public:
  // Errors: those of base/device.h.
  static Result<std::unique_ptr<DeviceFold>> create(const Region& region, int shard,
                                                    const FoldDevice& device);
  ~DeviceFold();
  DeviceFold(const DeviceFold&) = delete;
  DeviceFold& operator=(const DeviceFold&) = delete;

  // Makes the calling thread use the GPU.
  Status use() { return device_.gpu.side->use(device_.gpu.number); }

  // Copies changes that the processor made in the segment to the GPU: all of the shard, or its part
  // in each range of parameters. Blocks.
  Status load();
  Status load(std::span<const TouchedRange> ranges);

  // Updates with the shard's part of a gradient, which must not change until all is fetched. Does
  // not wait for the GPU if the gradient is pinned.
  Status add(const UpdateStep& step, std::span<const std::byte> gradient);

  // Fetch the new values to the host, block by block from the shard's first one on. All blocks must
  // be read. A slice is copied while the one before is read. Plane 0 is for weights, 1 + s for
  // state s. The result is valid until the next block is requested. The first call blocks until the
  // GPU has done all enqueued work, and returns its errors.
  Status start_fetch();
  Result<const float*> fetched(uint64_t block, uint32_t plane);

 private:
  DeviceFold(const Region& region, int shard, const FoldDevice& device);
  Status allocate();
  Status copy_slice(uint64_t slice);
  float* on_host(uint32_t plane) const;
  float* on_device(uint32_t plane) const;
  float* landing(uint64_t slice, uint32_t plane) const;

  const Region region_;
  const FoldDevice device_;
  const uint64_t first_;  // the shard's first float
  const uint64_t floats_;
  const uint32_t planes_;
  const uint64_t slice_floats_;
  base::SideStream stream_;
  base::SideMemory values_;    // one plane after the other
  base::SideMemory gradient_;  // in the server's gradient type
  base::SideMemory landing_;   // pinned: two slices of all planes
  uint64_t arrived_ = 0;       // number of slices of this fetch
};

}  // namespace ffdl::ps
