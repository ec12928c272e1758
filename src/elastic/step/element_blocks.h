#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/half_kernels.h"
#include "ffdl/types.h"

// Access to blocks of buffers of any floating dtype, for arithmetic in float or double. float16 and
// bfloat16 are processed as float. Buffers may have any address, since gradients may be cut
// anywhere out of a flat buffer.
namespace ffdl::elastic {

inline constexpr uint64_t kBlock = 1024;

template <class T>
using Block = std::array<T, kBlock>;

inline std::byte* place_in(const Buffer& buffer, uint64_t begin) {
  return static_cast<std::byte*>(buffer.data) + begin * element_bytes(buffer.dtype);
}

// Loads the elements from `begin` on, up to a block. Returns their number.
template <class T>
uint64_t load(const Buffer& buffer, uint64_t begin, Block<T>& into) {
  const uint64_t count = std::min(kBlock, buffer.count - begin);
  if constexpr (std::is_same_v<T, float>) {
    if (base::is_half(buffer.dtype)) {
      Block<uint16_t> narrow;
      std::memcpy(narrow.data(), place_in(buffer, begin), count * sizeof(uint16_t));
      base::widen(buffer.dtype, narrow.data(), into.data(), count);
      return count;
    }
  }
  std::memcpy(into.data(), place_in(buffer, begin), count * sizeof(T));
  return count;
}

// Stores the first `count` elements of a block.
template <class T>
void store(const Block<T>& block, uint64_t count, const Buffer& buffer, uint64_t begin) {
  if constexpr (std::is_same_v<T, float>) {
    if (base::is_half(buffer.dtype)) {
      Block<uint16_t> narrow;
      base::narrow(buffer.dtype, block.data(), narrow.data(), count);
      std::memcpy(place_in(buffer, begin), narrow.data(), count * sizeof(uint16_t));
      return;
    }
  }
  std::memcpy(place_in(buffer, begin), block.data(), count * sizeof(T));
}

}  // namespace ffdl::elastic
