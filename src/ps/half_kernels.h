#pragma once

#include <cstdint>

#include "ffdl/parameter_server.h"

// Conversions between float and the 16-bit types, vectorised (Highway). Both directions give the
// same bits on every processor: to the nearest, ties to even, as IEEE 754 says.
namespace ffdl::ps {

// `type`: kBFloat16 or kFloat16.
void widen(GradientType type, const uint16_t* from, float* to, uint64_t count);
// Beyond the type's range: infinite. NaN stays NaN.
void narrow(GradientType type, const float* from, uint16_t* to, uint64_t count);

// The largest finite number of a type.
float largest_finite(GradientType type);

}  // namespace ffdl::ps
