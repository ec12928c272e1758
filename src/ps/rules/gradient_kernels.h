#pragma once

#include <cstdint>

// Loops over gradients, vectorised for the processor on which the program runs (Highway).
namespace ffdl::ps {

struct GradientFacts {
  double square_sum = 0;  // over the finite elements, in a fixed order of additions
  bool finite = true;
};

// Inspects `count` floats in one pass.
GradientFacts inspect_gradient(const float* gradient, uint64_t count);

// Returns the largest magnitude. Not for arrays with NaN.
float largest_magnitude(const float* gradient, uint64_t count);

// Returns the first element that is NaN or has a magnitude above `limit`; `count` if there is none.
uint64_t find_beyond(const float* gradient, uint64_t count, float limit);

// to[i] = from[i]
void copy_floats(float* to, const float* from, uint64_t count);

// to[i] += scale * from[i]
void add_scaled(float* to, const float* from, float scale, uint64_t count);

// to[i] = to_scale * to[i] + from_scale * from[i]
void scale_and_add(float* to, float to_scale, const float* from, float from_scale, uint64_t count);

}  // namespace ffdl::ps
