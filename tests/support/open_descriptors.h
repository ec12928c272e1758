#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>

namespace ffdl::testing {

// Returns the number of open descriptors of this process.
inline std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

}  // namespace ffdl::testing
