#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace ffdl::base {

// Returns the finalizer of SplitMix64: a bijection of 64-bit numbers. Each output bit depends on
// all input bits. It must never change, as saved states depend on it.
FFDL_HOST_DEVICE constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace ffdl::base
