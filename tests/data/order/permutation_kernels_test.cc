#include "data/order/permutation_kernels.h"

#include <gtest/gtest.h>

#include <vector>

#include "data/order/permutation.h"

namespace ffdl::data {
namespace {

// Compares the kernel with its plain reference, at sizes and places that are no multiple of a
// vector or piece.
TEST(PermutationKernels, GiveManyAtATimeWhatTheyGiveOne) {
  for (const uint64_t size : {1, 2, 3, 7, 8, 9, 63, 64, 65, 511, 512, 513, 1024, 4096, 5000}) {
    const Permutation permutation(size, 11 * size);
    for (const uint64_t first : {uint64_t{0}, size / 3, size - 1}) {
      std::vector<uint64_t> values(size - first);
      permutation.at_each(first, values);
      for (uint64_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(values[i], permutation.at(first + i)) << i << " from " << first << " of " << size;
      }
    }
  }
  for (const uint64_t size : {1, 2, 7, 64, 513, 5000}) {
    const Permutation permutation(size, 3 * size);
    std::vector<uint64_t> values;
    for (uint64_t i = 0; i < 1025; ++i) values.push_back(mix(i) % size);
    const auto before = values;
    permutation.map_each(values);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], permutation.at(before[i])) << i << " of " << size;
    }
  }
  const Permutation large((uint64_t{1} << 40) + 1, 5);
  std::vector<uint64_t> values(1001);
  large.at_each(uint64_t{1} << 39, values);
  for (uint64_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], large.at((uint64_t{1} << 39) + i));
  }
}

}  // namespace
}  // namespace ffdl::data
