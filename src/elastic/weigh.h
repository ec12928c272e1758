#pragma once

#include <span>

#include "elastic/user_memory.h"
#include "ffdl/types.h"

namespace ffdl::elastic {

bool is_floating(DType dtype);

// Each element times `factor`, of any floating dtype. What was NaN or infinite becomes 0 where
// `factor` is 0.
void scale(std::span<const Buffer> buffers, double factor);
// The same, wherever they lie. Errors: those of UserMemory.
Status scale(UserMemory& memory, std::span<const Buffer> buffers, double factor);

}  // namespace ffdl::elastic
