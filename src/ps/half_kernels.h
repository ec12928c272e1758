#pragma once

#include <cstdint>

#include "base/half_kernels.h"
#include "ffdl/parameter_server.h"

// base/half_kernels.h for the types that gradients can have.
namespace ffdl::ps {

constexpr DType dtype_of(GradientType type) {
  switch (type) {
    case GradientType::kFloat32:
      return DType::kFloat32;
    case GradientType::kBFloat16:
      return DType::kBFloat16;
    case GradientType::kFloat16:
      return DType::kFloat16;
  }
  return DType::kFloat32;
}

inline void widen(GradientType type, const uint16_t* from, float* to, uint64_t count) {
  base::widen(dtype_of(type), from, to, count);
}

inline void narrow(GradientType type, const float* from, uint16_t* to, uint64_t count) {
  base::narrow(dtype_of(type), from, to, count);
}

inline float largest_finite(GradientType type) { return base::largest_finite(dtype_of(type)); }

}  // namespace ffdl::ps
