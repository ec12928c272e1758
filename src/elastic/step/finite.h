#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/device_side.h"
#include "elastic/state/user_memory.h"
#include "elastic/step/device_norm.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::elastic {

// Returns the first element that is NaN or infinite; nothing if there is none. Reads an array of
// any floating dtype, at any address, once.
std::optional<uint64_t> find_non_finite(const Buffer& buffer);

// An element of some buffers that is NaN or infinite.
struct NonFiniteElement {
  size_t buffer = 0;
  uint64_t element = 0;
  double value = 0;
};

// Finds the first such element of gradients, in any memory. A GPU adds up squares. Elements are
// copied to the host only if that sum is not finite.
// Threads: one at a time. Errors: those of Gpu and UserMemory.
class FiniteSearch {
 public:
  explicit FiniteSearch(const base::Gpu& gpu) : gpu_(gpu) {}

  Result<std::optional<NonFiniteElement>> find(std::span<const Buffer> gradients,
                                               UserMemory& memory);

 private:
  Result<bool> may_have_one(std::span<const Buffer> gradients);

  base::Gpu gpu_;
  std::optional<DeviceNorm> norm_;  // made by the first search
};

}  // namespace ffdl::elastic
