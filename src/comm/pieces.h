#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "ffdl/types.h"

// A list of buffers as the concatenation of their bytes.
namespace ffdl::comm {

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

// Where that is one run of memory, aligned for its elements; null where not.
inline std::byte* find_whole(std::span<const Buffer> list, uint64_t begin, uint64_t bytes) {
  std::byte* whole = nullptr;
  for_each_piece(list, begin, bytes, [&](std::byte* piece, uint64_t size) {
    const uint64_t element = element_bytes(list.front().dtype);
    const bool aligned = reinterpret_cast<uintptr_t>(piece) % element == 0;
    if (size == bytes && aligned) whole = piece;
  });
  return whole;
}

// Between processors: asks for the lines ahead, as the hardware does not see a pattern in lines
// that another one has just had. The distance is not critical: 256 to 1024 bytes measure alike.
inline void copy_ahead(std::byte* to, const std::byte* from, uint64_t bytes) {
  constexpr uint64_t kLine = 64;
  constexpr uint64_t kAhead = 512;
  uint64_t done = 0;
  for (; done + kLine <= bytes; done += kLine) {
    __builtin_prefetch(from + done + kAhead, 0);
    __builtin_prefetch(to + done + kAhead, 1);
    std::memcpy(to + done, from + done, kLine);
  }
  std::memcpy(to + done, from + done, bytes - done);
}

inline void copy_from_list(std::span<const Buffer> list, uint64_t begin, uint64_t bytes,
                           std::byte* to) {
  for_each_piece(list, begin, bytes, [&](const std::byte* piece, uint64_t size) {
    copy_ahead(to, piece, size);
    to += size;
  });
}

inline void copy_to_list(const std::byte* from, std::span<const Buffer> list, uint64_t begin,
                         uint64_t bytes) {
  for_each_piece(list, begin, bytes, [&](std::byte* piece, uint64_t size) {
    copy_ahead(piece, from, size);
    from += size;
  });
}

}  // namespace ffdl::comm
