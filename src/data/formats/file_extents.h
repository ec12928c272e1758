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

// Returns the extents sorted by offset. Extents within `reach` of each other are joined.
std::vector<Extent> merged(std::vector<Extent> extents, uint64_t reach);

// Returns a few extents, sorted by offset, that cover all of `samples`, which may have any order.
// Returns none if the samples are too scattered.
std::vector<Extent> few_stretches(std::span<const Extent> samples);

// Reports whether samples of `bytes` in total fill enough of the stretches to read these whole.
bool are_dense(std::span<const Extent> stretches, uint64_t bytes);

}  // namespace ffdl::data
