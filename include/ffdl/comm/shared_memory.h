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

// Memory that other processes of this host can be given access to. A collective over shared memory
// then reads and writes it in place (Communicator::register_memory). It outlives communicators, and
// belongs to no world.
// Threads: as any memory.
// Owns: the pages; a forked child shares them. They have no name: the memory is freed when the last
//       process that uses it ends.
// Errors: kExhausted (no room), kInvalidArgument (0 bytes).
class FFDL_API SharedMemory {
 public:
  // Allocates zeroed, page-aligned memory. Every page is already present.
  static Result<std::shared_ptr<SharedMemory>> allocate(uint64_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const;
  uint64_t bytes() const { return bytes_; }

  // Returns the segment, for the library's own use.
  shm::Segment& segment() const { return *segment_; }

 private:
  SharedMemory(shm::Segment segment, uint64_t bytes);
  const std::unique_ptr<shm::Segment> segment_;
  const uint64_t bytes_;
};

}  // namespace ffdl
