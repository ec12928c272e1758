#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ffdl/export.h"
#include "ffdl/status.h"

namespace ffdl {

namespace shm {
class Segment;
}

// Memory that other processes of this host can be let into, so that a collective over shared memory
// reads and writes it where it lies (Communicator::register_memory). It outlives communicators, and
// belongs to no world.
// Threads: as any memory.
// Owns: the pages; a forked child shares them. Nothing of it has a name: when all processes that
//       use it are gone, so is the memory.
// Errors: kExhausted (no room), kInvalidArgument (0 bytes).
class FFDL_API SharedMemory {
 public:
  // Zeroed, on a page of its own; every page is there already.
  static Result<std::shared_ptr<SharedMemory>> allocate(uint64_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const;
  uint64_t bytes() const { return bytes_; }

  // For the library's own use.
  shm::Segment& segment() const { return *segment_; }

 private:
  SharedMemory(shm::Segment segment, uint64_t bytes);
  const std::unique_ptr<shm::Segment> segment_;
  const uint64_t bytes_;
};

}  // namespace ffdl
