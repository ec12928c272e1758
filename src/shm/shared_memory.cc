#include "shm/shared_memory.h"

#include <limits>

#include "base/errors.h"

namespace ffdl {

Result<std::shared_ptr<SharedMemory>> SharedMemory::allocate(uint64_t bytes) {
  if (bytes == 0) return base::invalid_argument("allocate shared memory: 0 bytes; ask for some");
  if (bytes > std::numeric_limits<uint64_t>::max() - shm::kMemoryOffset) {
    return base::make_error(StatusCode::kExhausted,
                            "allocate shared memory: {} bytes do not fit into memory; ask for less",
                            bytes);
  }
  FFDL_ASSIGN_OR_RETURN(shm::Segment segment,
                        shm::Segment::create({.kind = shm::SegmentKind::kMemory,
                                              .layout_version = shm::kMemoryLayout,
                                              .bytes = shm::kMemoryOffset + bytes}));
  auto memory = std::unique_ptr<SharedMemory>(new SharedMemory(std::move(segment), bytes));
  return std::shared_ptr<SharedMemory>(std::move(memory));
}

SharedMemory::SharedMemory(shm::Segment segment, uint64_t bytes)
    : segment_(std::make_unique<shm::Segment>(std::move(segment))), bytes_(bytes) {}

SharedMemory::~SharedMemory() = default;

std::byte* SharedMemory::data() const { return segment_->data() + shm::kMemoryOffset; }

}  // namespace ffdl
