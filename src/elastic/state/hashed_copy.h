#pragma once

#include <cstddef>
#include <cstdint>

#include "elastic/state/hash.h"

namespace ffdl::elastic {

// Copies the bytes and adds them to `hash`, reading memory once. The copy bypasses the caches,
// since it is not read again here.
void copy_and_hash(std::byte* to, const std::byte* from, uint64_t bytes, Hash& hash);

}  // namespace ffdl::elastic
