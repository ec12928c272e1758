#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/host_device.h"

// Divides an array among the threads of a kernel. A pack of neighbouring elements is read and
// written at once where the hardware can. Thread t of `threads` has the packs t, t + threads, ..
// and the elements after the last pack in the same way.
namespace ffdl::base {

inline constexpr uint64_t kPackElements = 4;
// Alignment of a kernel's arrays in bytes: the most that one instruction moves.
inline constexpr uint64_t kDeviceAlignment = 16;

template <class T>
struct alignas(sizeof(T) * kPackElements < kDeviceAlignment ? sizeof(T) * kPackElements
                                                            : kDeviceAlignment) ElementPack {
  T at[kPackElements];
};

// Casts through void, since the caller guarantees the alignment: one instruction of up to 16 bytes.
template <class T>
FFDL_HOST_DEVICE ElementPack<T> load_pack(const T* from) {
  return *static_cast<const ElementPack<T>*>(static_cast<const void*>(from));
}

template <class T>
FFDL_HOST_DEVICE void store_pack(const ElementPack<T>& pack, T* to) {
  *static_cast<ElementPack<T>*>(static_cast<void*>(to)) = pack;
}

// Load and store at any address: at once if the address is aligned for it, else by elements, else
// by bytes.
template <class T>
FFDL_HOST_DEVICE T load_element(const std::byte* from) {
  if (reinterpret_cast<uintptr_t>(from) % alignof(T) == 0) return *reinterpret_cast<const T*>(from);
  T element;
  memcpy(&element, from, sizeof element);
  return element;
}

template <class T>
FFDL_HOST_DEVICE void store_element(const T& element, std::byte* to) {
  if (reinterpret_cast<uintptr_t>(to) % alignof(T) == 0) {
    *reinterpret_cast<T*>(to) = element;
  } else {
    memcpy(to, &element, sizeof element);
  }
}

template <class T>
FFDL_HOST_DEVICE ElementPack<T> load_elements(const std::byte* from) {
  if (reinterpret_cast<uintptr_t>(from) % alignof(ElementPack<T>) == 0) {
    return load_pack(reinterpret_cast<const T*>(from));
  }
  ElementPack<T> pack;
  FFDL_UNROLL
  for (uint64_t i = 0; i < kPackElements; ++i) {
    pack.at[i] = load_element<T>(from + i * sizeof(T));
  }
  return pack;
}

template <class T>
FFDL_HOST_DEVICE void store_elements(const ElementPack<T>& pack, std::byte* to) {
  if (reinterpret_cast<uintptr_t>(to) % alignof(ElementPack<T>) == 0) {
    return store_pack(pack, reinterpret_cast<T*>(to));
  }
  FFDL_UNROLL
  for (uint64_t i = 0; i < kPackElements; ++i) store_element(pack.at[i], to + i * sizeof(T));
}

struct LaunchShape {
  uint32_t blocks = 0;
  uint32_t threads_per_block = 256;
};

// Returns enough threads for `count` elements, but no more than keep a GPU busy. Each
// multiprocessor holds 8 such blocks at a time. A few times as many even out their ends.
constexpr LaunchShape launch_shape(uint64_t count, uint32_t multiprocessors) {
  LaunchShape shape;
  const uint64_t of_block = shape.threads_per_block * kPackElements;
  const uint64_t needed = count / of_block + (count % of_block != 0 ? 1 : 0);
  const uint64_t most = uint64_t{multiprocessors} * 8 * 4;
  shape.blocks = static_cast<uint32_t>(needed < most ? needed : most);
  return shape;
}

}  // namespace ffdl::base
