#pragma once

#include <cstddef>
#include <cstdint>

#include "base/device_side.h"
#include "comm/nccl_link.h"
#include "comm/request.h"

namespace ffdl::comm {

// What an operation is, as calls of NCCL, once all are known to run the same. What moves where is
// in parts.h. Buffers that are no single run of memory pass through one that is. Threads: one at a
// time, that which runs the operation.
class NcclExchange {
 public:
  // All must outlive it.
  NcclExchange(const World& world, base::DeviceSide& side, base::DeviceStream stream,
               uint64_t stage_bytes)
      : world_(world), side_(side), stream_(stream), stage_bytes_(stage_bytes) {}

  // Gives the stream all that this rank does of `request`, and returns. The next operation must not
  // begin before the stream has done it. Errors: those of `pause`, the device and nccl_error().
  Status begin(const Request& request, NcclLink& link, const Pause& pause);
  // The memory for copies; the next operation that needs it makes it anew. The stream is done.
  void drop_copies();

 private:
  // The list as one run of `bytes`: itself or a place for a copy.
  struct Run {
    std::byte* data = nullptr;
    bool copied = false;
  };
  Result<Run> run_of(std::span<const Buffer> list, uint64_t bytes, uint64_t element,
                     base::SideMemory& place, uint64_t& room);

  Status all_reduce(const Request& request, NcclLink& link, const Pause& pause);
  Status call(const Request& request, const std::byte* in, std::byte* out, NcclLink& link,
              const Pause& pause);
  // What NCCL has no call for in all versions: each rank sends each other what it needs.
  Status move_parts(const Request& request, const std::byte* in, std::byte* out, NcclLink& link,
                    const Pause& pause);

  const World& world_;
  base::DeviceSide& side_;
  const base::DeviceStream stream_;
  const uint64_t stage_bytes_;  // of a list that is added up, at once; equal at all ranks
  base::SideMemory in_copy_;
  base::SideMemory out_copy_;
  uint64_t in_room_ = 0;  // bytes of those two
  uint64_t out_room_ = 0;
};

}  // namespace ffdl::comm
