#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/device_side.h"
#include "base/limits.h"
#include "elastic/state/user_memory.h"

namespace ffdl::elastic {

// Visits buffers of which some are in the memory of one GPU. These pass through two slices of
// pinned memory, each on a stream of its own. While one slice is waited for and visited, the GPU's
// copy engines copy the other one, without a kernel. Other buffers are visited in place.
// Owns: two streams, and two slices. Blocks: as UserMemory does; only the GPU bounds the wait.
class StagedMemory final : public UserMemory {
 public:
  // Makes access to buffers of the chosen GPU. A slice has at least kStatePieceBytes.
  static Result<std::unique_ptr<StagedMemory>> create(
      base::ChosenGpu chosen, uint64_t slice_bytes = base::kDeviceSliceBytes);

  Status follow() override;
  Status visit(std::span<const Buffer> buffers, Access access, const Body& body) override;

 private:
  struct Piece {
    Buffer user;
    Buffer host;  // equal to `user` if that is in host memory
  };
  using Slice = std::vector<Piece>;
  // The buffers still to be cut; the first one from element `begin` on.
  struct Rest {
    std::span<const Buffer> buffers;
    uint64_t begin = 0;
  };

  StagedMemory(base::ChosenGpu chosen, uint64_t slice_bytes)
      : own_side_(std::move(chosen.own_side)), gpu_(chosen.gpu), slice_bytes_(slice_bytes) {}
  Status visit_slices(Rest rest, Access access, const Body& body);
  Result<Slice> cut_slice(Rest& rest, std::byte* into);
  enum class Way { kToHost, kToDevice };
  Status copy(const Slice& slice, Way way, base::DeviceStream stream);

  const std::unique_ptr<base::DeviceSide> own_side_;  // null: owned elsewhere
  const base::Gpu gpu_;
  const uint64_t slice_bytes_;
  base::SideStream streams_[2];  // one for each slice
  base::SideMemory memory_;      // of both slices
};

}  // namespace ffdl::elastic
