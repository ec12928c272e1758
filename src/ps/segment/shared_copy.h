#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "ps/rules/gradient_kernels.h"

// Copies floats while another thread or process reads or writes one side, on purpose: relaxed pulls
// see weights while they change. Each element is read and written as a whole; no order among them
// is guaranteed. An ordinary build copies in vectors, whose aligned 32-bit parts are atomic on
// every supported machine. Under ThreadSanitizer each element is a relaxed atomic, the equivalent
// in C++, so that other races are still found.
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

// Copies block by block within the first-level cache, where memcpy of some 2 KB would cost a fold a
// tenth.
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
