#pragma once

#include <cstddef>
#include <cstdint>

#include "elastic/hash.h"

namespace ffdl::elastic {

// Copies, and adds the bytes to `hash`: memory is read once for both, and the copy is written past
// the caches, as nobody here reads it again.
void copy_and_hash(std::byte* to, const std::byte* from, uint64_t bytes, Hash& hash);

}  // namespace ffdl::elastic
