#pragma once

#include <span>

#include "base/device_side.h"
#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::elastic {

// Each element times `factor`, of any floating dtype. What was NaN or infinite becomes 0 where
// `factor` is 0.
void scale(std::span<const Buffer> buffers, double factor);
// The same in that GPU's memory, if there is one. Errors: those of Gpu.
Status scale(const base::Gpu& gpu, std::span<const Buffer> buffers, double factor);

}  // namespace ffdl::elastic
