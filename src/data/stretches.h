#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ffdl::data {

// A part of a file.
struct Extent {
  uint64_t offset = 0;
  uint64_t bytes = 0;

  uint64_t end() const { return offset + bytes; }
  bool operator==(const Extent&) const = default;
};

// From the front of the file to its end, those as one that lie within `reach` of each other.
std::vector<Extent> merged(std::vector<Extent> extents, uint64_t reach);

// Few stretches of a file, from its front to its end, that hold all of `samples`, in whatever
// order; none: they lie in too many places.
std::vector<Extent> few_stretches(std::span<const Extent> samples);

// Whether samples of so many bytes fill stretches so far that all of these should be read.
bool are_dense(std::span<const Extent> stretches, uint64_t bytes);

}  // namespace ffdl::data
