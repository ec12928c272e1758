#pragma once

#include <cstdint>

#include "ffdl/types.h"

// Converts between float and the 16-bit types, vectorised (Highway). Both directions return the
// same bits on every processor. Rounding is to nearest, ties to even, as in IEEE 754.
namespace ffdl::base {

inline bool is_half(DType type) { return type == DType::kFloat16 || type == DType::kBFloat16; }
inline bool is_floating(DType type) {
  return is_half(type) || type == DType::kFloat32 || type == DType::kFloat64;
}

// `type`: kBFloat16 or kFloat16.
void widen(DType type, const uint16_t* from, float* to, uint64_t count);
// Values beyond the type's range become infinite. NaN stays NaN.
void narrow(DType type, const float* from, uint16_t* to, uint64_t count);

// Returns the largest finite number of a 16-bit type, or of float.
float largest_finite(DType type);

}  // namespace ffdl::base
