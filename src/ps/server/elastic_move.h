#pragma once

#include <cstddef>
#include <span>

// Computes elastic averaging. Local model and centre move by the same floats, so that one gains
// exactly what the other loses.
namespace ffdl::ps {

// Turns a copy of the centre into the gradient that moves the centre towards the local model. The
// server subtracts it.
inline void elastic_gradient(float elasticity, std::span<const float> local,
                             std::span<float> centre) {
  for (size_t i = 0; i < local.size(); ++i) centre[i] = elasticity * (centre[i] - local[i]);
}

// Moves the local model towards the centre by that gradient.
inline void elastic_move(std::span<const float> gradient, std::span<float> local) {
  for (size_t i = 0; i < local.size(); ++i) local[i] += gradient[i];
}

}  // namespace ffdl::ps
