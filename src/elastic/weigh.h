#pragma once

#include <span>

#include "ffdl/types.h"

namespace ffdl::elastic {

bool is_floating(DType dtype);

// Each element times `factor`, of any floating dtype. What was NaN or infinite becomes 0 where
// `factor` is 0.
void scale(std::span<const Buffer> buffers, double factor);

}  // namespace ffdl::elastic
