#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/device_side.h"
#include "base/limits.h"
#include "elastic/user_memory.h"

namespace ffdl::elastic {

// Buffers of which some lie in the memory of one GPU. These pass through two slices of pinned
// memory, on a stream of their own: while one slice is visited the next one is copied, by the GPU's
// copy engines and without a kernel. The others are visited where they lie.
// Owns: a stream, and two slices. Blocks: as UserMemory says; nothing bounds the wait but the GPU.
class StagedMemory final : public UserMemory {
 public:
  // The buffers are those of the GPU. A slice has kStatePieceBytes at least.
  static Result<std::unique_ptr<StagedMemory>> create(
      base::ChosenGpu chosen, uint64_t slice_bytes = base::kDeviceSliceBytes);

  Status follow() override;
  Status visit(std::span<const Buffer> buffers, Access access, const Body& body) override;

 private:
  struct Piece {
    Buffer user;
    Buffer host;  // the same where `user` is the host's
  };
  using Slice = std::vector<Piece>;
  // What has not been cut: of the first buffer, from element `begin` on.
  struct Rest {
    std::span<const Buffer> buffers;
    uint64_t begin = 0;
  };

  StagedMemory(base::ChosenGpu chosen, uint64_t slice_bytes)
      : own_side_(std::move(chosen.own_side)), gpu_(chosen.gpu), slice_bytes_(slice_bytes) {}
  Status visit_slices(Rest rest, Access access, const Body& body);
  Result<Slice> cut_slice(Rest& rest, std::byte* into);
  enum class Way { kToHost, kToDevice };
  Status copy(const Slice& slice, Way way);

  const std::unique_ptr<base::DeviceSide> own_side_;  // null: another's
  const base::Gpu gpu_;
  const uint64_t slice_bytes_;
  base::SideStream stream_;
  base::SideMemory memory_;  // of both slices
};

}  // namespace ffdl::elastic
