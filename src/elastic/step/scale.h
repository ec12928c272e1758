#pragma once

#include <span>

#include "base/device_side.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::elastic {

// Multiplies each element by `factor`, in any floating dtype. NaN and infinity become 0 if `factor`
// is 0.
void scale(std::span<const Buffer> buffers, double factor);
// Scales buffers in the GPU's memory, or in the host's without one. Errors: those of Gpu.
Status scale(const base::Gpu& gpu, std::span<const Buffer> buffers, double factor);

}  // namespace ffdl::elastic
