#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "ps/gradient_kernels.h"

// Copies of floats where another thread or process reads or writes one side at the same time, on
// purpose: relaxed pulls see weights while they change. Each element is read and written whole; no
// order is promised among them. An ordinary build copies in vectors, whose aligned 32-bit parts are
// whole on every machine we build for. Under ThreadSanitizer each element is the relaxed atomic
// that this means in C++, so that races elsewhere are still found.
namespace ffdl::ps {

#if defined(__SANITIZE_THREAD__)
#define FFDL_ATOMIC_COPIES 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FFDL_ATOMIC_COPIES 1
#endif
#endif

inline void copy_from_shared(float* to, const float* from, uint64_t count) {
#ifdef FFDL_ATOMIC_COPIES
  for (uint64_t i = 0; i < count; ++i) {
    to[i] = std::atomic_ref(const_cast<float&>(from[i])).load(std::memory_order_relaxed);
  }
#else
  std::memcpy(to, from, count * sizeof(float));
#endif
}

// Within the first-level cache, block by block: there memcpy of some 2 KB costs a fold a tenth.
inline void copy_to_shared(float* to, const float* from, uint64_t count) {
#ifdef FFDL_ATOMIC_COPIES
  for (uint64_t i = 0; i < count; ++i) {
    std::atomic_ref(to[i]).store(from[i], std::memory_order_relaxed);
  }
#else
  copy_floats(to, from, count);
#endif
}

}  // namespace ffdl::ps
