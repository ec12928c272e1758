#include "comm/operation/reachable_memory.h"

#include "base/errors.h"
#include "base/limits.h"
#include "shm/shared_memory.h"

namespace ffdl::comm {

void ReachableMemory::add(const std::shared_ptr<SharedMemory>& memory) {
  std::erase_if(registered_, [&](const auto& known) {
    const auto live = known.lock();
    return live == nullptr || live == memory;
  });
  registered_.push_back(memory);
}

// Requires a whole registered memory, so that take_back() loses no other bytes.
shm::SegmentPlace ReachableMemory::place_of(const Request& request) const {
  if (request.signature.kind != Collective::kAllReduce || request.out.size() != 1) return {};
  const Buffer& buffer = request.out.front();
  if (request.in.size() != 1 || request.in.front().data != buffer.data) return {};
  for (const auto& known : registered_) {
    const auto memory = known.lock();
    if (memory == nullptr || memory->data() != buffer.data) continue;
    if (memory->bytes() != request.block_bytes()) continue;
    return shm::place_of(memory->segment());
  }
  return {};
}

void ReachableMemory::make_room() {
  if (mapped_.size() >= base::kReachedMax) mapped_.clear();
}

Result<std::byte*> ReachableMemory::reach(const shm::SegmentPlace& place, uint64_t bytes) {
  const auto key = std::pair(place.pid, place.segment);
  auto found = mapped_.find(key);
  if (found == mapped_.end()) {
    FFDL_ASSIGN_OR_RETURN(shm::Segment segment,
                          open_segment(place, shm::SegmentKind::kMemory, shm::kMemoryLayout));
    found = mapped_.emplace(key, std::move(segment)).first;
  }
  if (found->second.bytes() - shm::kMemoryOffset < bytes) {
    return base::invalid_argument("open the memory of process {}: {} bytes, not {}", place.pid,
                                  found->second.bytes() - shm::kMemoryOffset, bytes);
  }
  return found->second.data() + shm::kMemoryOffset;
}

Status ReachableMemory::take_back(const shm::SegmentPlace& place) {
  for (const auto& known : registered_) {
    const auto memory = known.lock();
    if (memory == nullptr || memory->segment().header().generation != place.segment) continue;
    return memory->segment().renew();
  }
  return {};
}

}  // namespace ffdl::comm
