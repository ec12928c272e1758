#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/device_side.h"
#include "comm/operation/buffer_pieces.h"

// Copies lists of buffers in a GPU's memory to and from one contiguous run. These are
// copy_from_list() and copy_to_list() of buffer_pieces.h on a stream.
namespace ffdl::comm {

inline Status copy_from_list(base::DeviceSide& side, base::DeviceStream stream,
                             std::span<const Buffer> list, uint64_t begin, uint64_t bytes,
                             std::byte* to) {
  Status status;
  for_each_piece(list, begin, bytes, [&](const std::byte* piece, uint64_t size) {
    if (status.ok()) status = side.copy(to, piece, size, stream);
    to += size;
  });
  return status;
}

inline Status copy_to_list(base::DeviceSide& side, base::DeviceStream stream, const std::byte* from,
                           std::span<const Buffer> list, uint64_t begin, uint64_t bytes) {
  Status status;
  for_each_piece(list, begin, bytes, [&](std::byte* piece, uint64_t size) {
    if (status.ok()) status = side.copy(piece, from, size, stream);
    from += size;
  });
  return status;
}

}  // namespace ffdl::comm
