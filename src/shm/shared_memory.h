#pragma once

#include "ffdl/comm/shared_memory.h"
#include "shm/segment.h"

namespace ffdl::shm {

inline constexpr uint32_t kMemoryLayout = 1;

// Offset of the user's bytes in a segment of kMemory, which begin on their own page.
inline constexpr uint64_t kMemoryOffset = 4096;

}  // namespace ffdl::shm
