#pragma once

#include "ffdl/shared_memory.h"
#include "shm/segment.h"

namespace ffdl::shm {

inline constexpr uint32_t kMemoryLayout = 1;

// Where the user's bytes begin in a segment of kMemory: a page of their own.
inline constexpr uint64_t kMemoryOffset = 4096;

}  // namespace ffdl::shm
