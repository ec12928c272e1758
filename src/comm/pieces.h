#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "ffdl/types.h"

// A list of buffers as the concatenation of their bytes, and elements cut into a piece per rank.
namespace ffdl::comm {

inline constexpr uint64_t kLine = 64;

// Elements [begin, end) of `count` that `rank` reduces. Pieces begin on lines of their own, so that
// no two ranks write to the same one.
struct Piece {
  uint64_t begin;
  uint64_t end;
};

inline Piece piece_of(int rank, int ranks, uint64_t count, uint64_t element) {
  const uint64_t unit = kLine / element;
  const uint64_t lines = (count + unit - 1) / unit;
  const auto cut = [&](int at) {
    return std::min(count, lines * static_cast<uint64_t>(at) / static_cast<uint64_t>(ranks) * unit);
  };
  return {cut(rank), cut(rank + 1)};
}

// Calls visit(address, bytes) for each run of memory that bytes [begin, begin + bytes) of the list
// lie in. The list must have them.
template <class Visit>
void for_each_piece(std::span<const Buffer> list, uint64_t begin, uint64_t bytes, Visit&& visit) {
  for (const Buffer& buffer : list) {
    if (bytes == 0) return;
    const uint64_t size = buffer.count * element_bytes(buffer.dtype);
    if (begin >= size) {
      begin -= size;
      continue;
    }
    const uint64_t here = std::min(bytes, size - begin);
    visit(static_cast<std::byte*>(buffer.data) + begin, here);
    bytes -= here;
    begin = 0;
  }
}

inline void copy_from_list(std::span<const Buffer> list, uint64_t begin, uint64_t bytes,
                           std::byte* to) {
  for_each_piece(list, begin, bytes, [&](const std::byte* piece, uint64_t size) {
    std::memcpy(to, piece, size);
    to += size;
  });
}

inline void copy_to_list(const std::byte* from, std::span<const Buffer> list, uint64_t begin,
                         uint64_t bytes) {
  for_each_piece(list, begin, bytes, [&](std::byte* piece, uint64_t size) {
    std::memcpy(piece, from, size);
    from += size;
  });
}

}  // namespace ffdl::comm
