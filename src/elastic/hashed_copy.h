#pragma once

#include <cstddef>
#include <cstdint>

namespace ffdl::elastic {

// Copies, and returns what Hash (hash.h) says of the bytes: memory is read once for both, and the
// copy is written past the caches, as nobody here reads it again.
uint64_t copy_and_hash(std::byte* to, const std::byte* from, uint64_t bytes);

}  // namespace ffdl::elastic
