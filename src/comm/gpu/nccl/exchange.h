#pragma once

#include <cstddef>
#include <cstdint>

#include "base/device_side.h"
#include "comm/gpu/nccl/link.h"
#include "comm/operation/request.h"

namespace ffdl::comm {

// Carries out an operation as calls of NCCL, once all are known to run the same.
// collective_blocks.h defines what moves. Buffers that are not contiguous pass through memory that
// is.
// Threads: one at a time, the one that runs the operation.
class NcclExchange {
 public:
  // All arguments must outlive it.
  NcclExchange(const World& world, base::DeviceSide& side, base::DeviceStream stream,
               uint64_t stage_bytes)
      : world_(world), side_(side), stream_(stream), stage_bytes_(stage_bytes) {}

  // Queues this rank's work of `request` on the stream, and returns. The next operation must not
  // begin before the stream has done it. Errors: those of `pause`, the device and nccl_error().
  Status begin(const Request& request, NcclLink& link, const Pause& pause);
  // Frees the memory for copies, when the stream is done. The next operation that needs it
  // allocates it.
  void drop_copies();

 private:
  // The list as one run of `bytes`: itself, or a place for a copy.
  struct Run {
    std::byte* data = nullptr;
    bool copied = false;
  };
  Result<Run> run_of(std::span<const Buffer> list, uint64_t bytes, uint64_t element,
                     base::SideMemory& place, uint64_t& room);

  Status all_reduce(const Request& request, NcclLink& link, const Pause& pause);
  Status call(const Request& request, const std::byte* in, std::byte* out, NcclLink& link,
              const Pause& pause);
  // Sends each rank what it needs, for operations that not all versions of NCCL have.
  Status move_parts(const Request& request, const std::byte* in, std::byte* out, NcclLink& link,
                    const Pause& pause);

  const World& world_;
  base::DeviceSide& side_;
  const base::DeviceStream stream_;
  const uint64_t stage_bytes_;  // of a list that are reduced at once; equal at all ranks
  base::SideMemory in_copy_;
  base::SideMemory out_copy_;
  uint64_t in_room_ = 0;  // bytes of those two
  uint64_t out_room_ = 0;
};

}  // namespace ffdl::comm
