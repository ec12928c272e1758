#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/device_side.h"
#include "base/limits.h"
#include "ffdl/device_update.h"
#include "ps/layout.h"

namespace ffdl::ps {

// The GPU of a server that folds in its memory, and the kernels that it does so with. Borrows the
// side.
struct FoldDevice {
  using Update = Status (*)(const UpdateRuleOptions& options, const UpdateStep& step,
                            const DeviceUpdate& update, void* stream);

  base::Gpu gpu{};
  Update update = &update_on_device;
  uint64_t slice_bytes = base::kDeviceSliceBytes;  // of each array that come back at once

  explicit operator bool() const { return static_cast<bool>(gpu); }
};

// What one shard has in a GPU's memory: its weights and what the rule keeps of them, as the segment
// has them too, room for one gradient, and two slices of pinned memory. The segment stays what
// counts. Whatever is asked for is done in order, on a stream of its own.
// Threads: one at a time, which has called use().
class DeviceFold {
 public:
  // Errors: those of base/device.h.
  static Result<std::unique_ptr<DeviceFold>> create(const Region& region, int shard,
                                                    const FoldDevice& device);
  ~DeviceFold();
  DeviceFold(const DeviceFold&) = delete;
  DeviceFold& operator=(const DeviceFold&) = delete;

  // The calling thread uses the GPU from now on.
  Status use() { return device_.gpu.side->use(device_.gpu.number); }

  // Takes over what the processor has changed in the segment: everything, or its part in each range
  // of parameters. Blocks.
  Status load();
  Status load(std::span<const TouchedRange> ranges);

  // One update with the shard's part of a gradient, which stays as it is until all is fetched. Does
  // not wait for the GPU where the gradient is pinned.
  Status add(const UpdateStep& step, std::span<const std::byte> gradient);

  // The new values come to the host, to be read block by block from the shard's first one on, all
  // of them: a slice comes while the one before is read. Plane 0 is for weights, 1 + s for state s;
  // what is returned is good until the next block is asked for. The first call blocks until the GPU
  // has done all that it was given, and tells what of it failed.
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
  const uint64_t first_;  // float of the shard
  const uint64_t floats_;
  const uint32_t planes_;
  const uint64_t slice_floats_;
  base::SideStream stream_;
  base::SideMemory values_;    // one plane after the other
  base::SideMemory gradient_;  // in the server's gradient type
  base::SideMemory landing_;   // pinned: two slices of all planes
  uint64_t arrived_ = 0;       // slices of this fetch
};

}  // namespace ffdl::ps
