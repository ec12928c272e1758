#pragma once

#include <array>
#include <optional>
#include <vector>

namespace ffdl::cluster {

// A measured point of a function of three variables, with two values.
struct Sample {
  std::array<double, 3> at;
  std::array<double, 2> value;
};

// Returns the value at `point` by linear interpolation in the Delaunay tetrahedron that contains
// it; nothing outside the samples' convex hull. It finds the tetrahedron without a triangulation,
// as the optimum of a linear program. The program's variables are weights of the samples that add
// up to 1 and to the point. It minimizes the weighted squared distance.
std::optional<std::array<double, 2>> interpolate(const std::vector<Sample>& samples,
                                                 const std::array<double, 3>& point);

}  // namespace ffdl::cluster
