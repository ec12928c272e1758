#pragma once

#include <cstdint>
#include <cstring>

#include "base/host_device.h"

// Converts one element as base/half_kernels.h does, on host and device. The bits are equal except
// for the payload of NaN.
namespace ffdl::base {

struct BFloat16 {
  uint16_t bits;
};

struct Float16 {
  uint16_t bits;
};

FFDL_HOST_DEVICE inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

FFDL_HOST_DEVICE inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

FFDL_HOST_DEVICE inline float widened(float value) { return value; }

FFDL_HOST_DEVICE inline double widened(double value) { return value; }

FFDL_HOST_DEVICE inline float widened(BFloat16 half) { return float_of(uint32_t{half.bits} << 16); }

FFDL_HOST_DEVICE inline float widened(Float16 half) {
  const uint32_t sign = (half.bits & 0x8000U) << 16;
  const uint32_t magnitude = (half.bits & 0x7FFFU) << 13;
  // Multiplying by 2^112 changes the exponent's bias, and makes subnormal numbers normal.
  const uint32_t finite = bits_of(float_of(magnitude) * 0x1p112F);
  return float_of(sign | (magnitude > 0x0F7FFFFF ? magnitude | 0x7F800000 : finite));
}

FFDL_HOST_DEVICE inline void narrow(float value, float& same) { same = value; }

FFDL_HOST_DEVICE inline void narrow(double value, double& same) { same = value; }

FFDL_HOST_DEVICE inline void narrow(float value, BFloat16& half) {
  const uint32_t bits = bits_of(value);
  const uint32_t odd = bits >> 16 & 1;
  const uint32_t rounded = (bits + odd + 0x7FFF) >> 16;
  half.bits = static_cast<uint16_t>(value == value ? rounded : bits >> 16 | 0x40);
}

FFDL_HOST_DEVICE inline void narrow(float value, Float16& half) {
  const uint32_t sign = bits_of(value) >> 16 & 0x8000;
  const uint32_t bits = bits_of(value) & 0x7FFFFFFF;
  uint32_t result = 0;
  if (bits > 0x7F800000) {
    result = 0x7E00;  // NaN
  } else if (bits > 0x477FFFFF) {
    result = 0x7C00;  // 2^16 and above
  } else if (bits < 0x38800000) {
    // Below 2^-14 the addition of 1/2 itself rounds to the grid of the subnormal numbers.
    result = bits_of(float_of(bits) + 0.5F) - bits_of(0.5F);
  } else {
    const uint32_t odd = bits >> 13 & 1;
    result = (bits - ((127U - 15U) << 23) + odd + 0xFFF) >> 13;
  }
  half.bits = static_cast<uint16_t>(sign | result);
}

}  // namespace ffdl::base
