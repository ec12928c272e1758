#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "ffdl/status.h"
#include "ffdl/types.h"

namespace ffdl::elastic {

uint64_t bytes_of(std::span<const Buffer> buffers);
inline uint64_t bytes_of(const Buffer& buffer) { return bytes_of({&buffer, 1}); }
// Wraps memory as a Buffer for an operation.
inline Buffer as_bytes(void* data, uint64_t bytes) { return {data, bytes, DType::kInt8}; }
// Cuts a piece of a buffer from element `begin` on: whole elements, at most kStatePieceBytes.
Buffer cut_piece(const Buffer& buffer, uint64_t begin);

enum class Access { kRead, kWrite };

// Access to the state and the gradients of a session, in any memory. All reads and writes by the
// processor go through it.
// Threads: one at a time. Errors: those of base/device.h, and those that `body` returns.
class UserMemory {
 public:
  // Processes a piece (cut_piece) of a buffer, in host memory.
  using Body = std::function<Status(const Buffer& piece)>;

  virtual ~UserMemory() = default;

  // Orders all present work of the GPU's default stream before the later visits. It is called where
  // the user may have submitted GPU work. Does not block.
  virtual Status follow() = 0;
  // Calls `body` with each piece of the buffers, in order, until it fails. With kRead a piece holds
  // the buffer's elements. With kWrite the buffers hold what `body` left in the pieces, after a
  // successful return. Blocks: until a GPU has copied its part, which waits for all work before
  // follow().
  virtual Status visit(std::span<const Buffer> buffers, Access access, const Body& body) = 0;
};

// Visits buffers in host memory, in place.
class HostMemory final : public UserMemory {
 public:
  Status follow() override { return {}; }
  Status visit(std::span<const Buffer> buffers, Access access, const Body& body) override;
};

}  // namespace ffdl::elastic
