#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>

namespace ffdl::elastic {

// The XXH3 hash of all added bytes, however they were split.
class Hash {
 public:
  Hash() { XXH3_64bits_reset(&state_); }
  void add(const void* data, uint64_t bytes) {
    if (bytes > 0) XXH3_64bits_update(&state_, data, bytes);
  }
  void add(uint64_t number) { add(&number, sizeof number); }
  uint64_t digest() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

}  // namespace ffdl::elastic
