#pragma once

#include <cstdint>

#include "base/host_device.h"

// How the threads of a kernel share an array: packs of neighbouring elements in turn, each read and
// written at once where the hardware can, and what remains one by one. Thread t of `threads` has
// the packs t, t + threads, .. and the elements behind the last pack in the same way.
namespace ffdl::base {

inline constexpr uint64_t kPackElements = 4;
// What a kernel's arrays must be aligned to, in bytes: the most that one instruction moves.
inline constexpr uint64_t kDeviceAlignment = 16;

template <class T>
struct alignas(sizeof(T) * kPackElements < kDeviceAlignment ? sizeof(T) * kPackElements
                                                            : kDeviceAlignment) ElementPack {
  T at[kPackElements];
};

// Through void, as the alignment is a promise of the caller: one instruction of 16 bytes.
template <class T>
FFDL_HOST_DEVICE ElementPack<T> load_pack(const T* from) {
  return *static_cast<const ElementPack<T>*>(static_cast<const void*>(from));
}

template <class T>
FFDL_HOST_DEVICE void store_pack(const ElementPack<T>& pack, T* to) {
  *static_cast<ElementPack<T>*>(static_cast<void*>(to)) = pack;
}

struct LaunchShape {
  uint32_t blocks = 0;
  uint32_t threads_per_block = 256;
};

// Enough threads for `count` elements, and not more than keep a GPU busy: each of its
// multiprocessors holds 8 such blocks at a time, and a few times as many even out their ends.
constexpr LaunchShape launch_shape(uint64_t count, uint32_t multiprocessors) {
  LaunchShape shape;
  const uint64_t of_block = shape.threads_per_block * kPackElements;
  const uint64_t needed = count / of_block + (count % of_block != 0 ? 1 : 0);
  const uint64_t most = uint64_t{multiprocessors} * 8 * 4;
  shape.blocks = static_cast<uint32_t>(needed < most ? needed : most);
  return shape;
}

}  // namespace ffdl::base
