#include <algorithm>
#include <limits>

#include "ffdl/tuning/gradient_noise.h"

namespace ffdl {

double NoiseScale::value() const {
  if (!(variance > 0)) return 0;
  if (!(squared_norm > 0)) return std::numeric_limits<double>::infinity();
  return variance / squared_norm;
}

double NoiseScale::gain(double reference, double samples) const {
  if (!(variance > 0)) return 1;
  const double norm = std::max(squared_norm, 0.0);
  return (variance / reference + norm) / (variance / samples + norm);
}

}  // namespace ffdl
