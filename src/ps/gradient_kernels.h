#pragma once

#include <cstdint>

// Loops over gradients, vectorised for the processor at hand when the program starts (Highway).
namespace ffdl::ps {

struct GradientFacts {
  double square_sum = 0;  // of the finite elements, in a fixed order of additions
  bool finite = true;
};

// One pass over `count` floats.
GradientFacts inspect_gradient(const float* gradient, uint64_t count);

// The largest magnitude; not for NaN.
float largest_magnitude(const float* gradient, uint64_t count);

// The first element that is NaN or has a magnitude above `limit`; `count` when there is none.
uint64_t find_beyond(const float* gradient, uint64_t count, float limit);

// to[i] = from[i]
void copy_floats(float* to, const float* from, uint64_t count);

// to[i] += scale * from[i]
void add_scaled(float* to, const float* from, float scale, uint64_t count);

// to[i] = to_scale * to[i] + from_scale * from[i]
void scale_and_add(float* to, float to_scale, const float* from, float from_scale, uint64_t count);

}  // namespace ffdl::ps
