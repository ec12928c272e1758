#include "elastic/state/user_memory.h"

#include <algorithm>

#include "base/limits.h"

namespace ffdl::elastic {

uint64_t bytes_of(std::span<const Buffer> buffers) {
  uint64_t bytes = 0;
  for (const Buffer& buffer : buffers) bytes += buffer.count * element_bytes(buffer.dtype);
  return bytes;
}

Buffer cut_piece(const Buffer& buffer, uint64_t begin) {
  const uint64_t element = element_bytes(buffer.dtype);
  return {static_cast<std::byte*>(buffer.data) + begin * element,
          std::min(buffer.count - begin, base::kStatePieceBytes / element), buffer.dtype};
}

Status HostMemory::visit(std::span<const Buffer> buffers, Access /*access*/, const Body& body) {
  for (const Buffer& buffer : buffers) {
    for (uint64_t begin = 0; begin < buffer.count;) {
      const Buffer piece = cut_piece(buffer, begin);
      FFDL_RETURN_IF_ERROR(body(piece));
      begin += piece.count;
    }
  }
  return {};
}

}  // namespace ffdl::elastic
