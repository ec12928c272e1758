#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "ffdl/types.h"

// Treats a list of buffers as the concatenation of their bytes, and cuts elements into pieces by
// rank.
namespace ffdl::comm {

inline constexpr uint64_t kLine = 64;

// Elements [begin, end) of `count` that `rank` reduces. Pieces begin on separate cache lines, so
// that no two ranks write to the same one.
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

// Calls visit(address, bytes) for each contiguous run of bytes [begin, begin + bytes) of the list.
// The list must have them.
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

// Returns the address of those bytes if they are contiguous and aligned to `alignment`; else null.
inline std::byte* find_run(std::span<const Buffer> list, uint64_t begin, uint64_t bytes,
                           uint64_t alignment) {
  std::byte* run = nullptr;
  for_each_piece(list, begin, bytes, [&](std::byte* piece, uint64_t size) {
    const bool aligned = reinterpret_cast<uintptr_t>(piece) % alignment == 0;
    if (size == bytes && aligned) run = piece;
  });
  return run;
}

// Copies between processors. Prefetches the lines ahead, as the hardware sees no pattern in lines
// that another processor has just had. The distance is not critical: 256 to 1024 bytes measure
// alike.
inline void copy_ahead(std::byte* to, const std::byte* from, uint64_t bytes) {
  if (to == from) return;  // in place
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
