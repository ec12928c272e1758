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
// Memory as an operation takes it.
inline Buffer as_bytes(void* data, uint64_t bytes) { return {data, bytes, DType::kInt8}; }
// Of a buffer, from element `begin` on: whole elements, at most kStatePieceBytes.
Buffer cut_piece(const Buffer& buffer, uint64_t begin);

enum class Access { kRead, kWrite };

// The state and the gradients of a session, wherever they lie: what the processor reads or writes
// of them it reads and writes here.
// Threads: one at a time. Errors: those of base/device.h, and what `body` returns.
class UserMemory {
 public:
  // Is given a piece (cut_piece) of a buffer, in memory of the host.
  using Body = std::function<Status(const Buffer& piece)>;

  virtual ~UserMemory() = default;

  // What the GPU's default stream was given until now comes before what visit() sees from here on.
  // To be called where the user may have given it work. Does not block.
  virtual Status follow() = 0;
  // Calls `body` with piece after piece of the buffers, in their order, until it fails. To be read
  // a piece has the buffer's elements; to be written, the buffers have what it was left with when
  // this returns well. Blocks: until a GPU has copied what is in its memory, and that waits for
  // what it had been given before follow().
  virtual Status visit(std::span<const Buffer> buffers, Access access, const Body& body) = 0;
};

// All of it is the host's, and is visited where it lies.
class HostMemory final : public UserMemory {
 public:
  Status follow() override { return {}; }
  Status visit(std::span<const Buffer> buffers, Access access, const Body& body) override;
};

}  // namespace ffdl::elastic
