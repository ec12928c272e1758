#pragma once

#include <array>
#include <optional>
#include <vector>

namespace ffdl::plan {

// A measured point of a function of three variables, with two values.
struct Sample {
  std::array<double, 3> at;
  std::array<double, 2> value;
};

// The value at `point` by linear interpolation in the Delaunay tetrahedron that contains it;
// nothing outside the samples' convex hull. The tetrahedron is not taken from a triangulation but
// found as the optimum of a linear program: the weights of the samples, adding up to 1 and to the
// point, for which the weighted squared distance is least.
std::optional<std::array<double, 2>> interpolate(const std::vector<Sample>& samples,
                                                 const std::array<double, 3>& point);

}  // namespace ffdl::plan
