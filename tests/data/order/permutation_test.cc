#include "data/order/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ffdl::data {
namespace {

std::vector<uint64_t> all_of(uint64_t size, uint64_t key) {
  const Permutation permutation(size, key);
  std::vector<uint64_t> values;
  for (uint64_t i = 0; i < size; ++i) values.push_back(permutation.at(i));
  return values;
}

TEST(Permutation, HasEachValueOnceAndKnowsTheWayBack) {
  for (uint64_t size = 1; size <= 300; ++size) {
    const Permutation permutation(size, 7 * size);
    std::vector<int> seen(size);
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t value = permutation.at(i);
      ASSERT_LT(value, size);
      ++seen[value];
      ASSERT_EQ(permutation.index_of(value), i) << "of " << size;
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<std::ptrdiff_t>(size));
  }
}

TEST(Permutation, LargeOnesKnowTheWayBackToo) {
  for (const uint64_t size : {uint64_t{1} << 32, (uint64_t{1} << 32) + 1, uint64_t{999'999'999}}) {
    const Permutation permutation(size, 3);
    for (uint64_t i = 0; i < 1000; ++i) {
      const uint64_t index = mix(i) % size;
      ASSERT_LT(permutation.at(index), size);
      ASSERT_EQ(permutation.index_of(permutation.at(index)), index);
    }
  }
}

// Saved states depend on these values, which were computed once, separately, from the header's
// definition.
TEST(Permutation, IsTheSameForEver) {
  EXPECT_EQ(mix(0), 0xe220a8397b1dcdafU) << "the first number of SplitMix64 from seed 0";
  EXPECT_EQ(all_of(10, 1), (std::vector<uint64_t>{7, 6, 2, 5, 3, 9, 0, 1, 8, 4}));
  const Permutation large(1'000'000'007, 42);
  EXPECT_EQ(large.at(0), 350078501U);
  EXPECT_EQ(large.at(1'000'000'006), 482700576U);
}

// Each value is at each position about equally often, in sets so small that this is hardest. With
// 20,000 keys and n values a count varies by about sqrt(20000 / n). Ten times that is a bias.
TEST(Permutation, KeysDoNotPreferPlaces) {
  constexpr uint64_t kKeys = 20'000;
  for (uint64_t size = 2; size <= 17; ++size) {
    std::vector<std::vector<double>> counts(size, std::vector<double>(size));
    for (uint64_t key = 0; key < kKeys; ++key) {
      const auto values = all_of(size, mix(key));
      for (uint64_t i = 0; i < size; ++i) ++counts[i][values[i]];
    }
    const double expected = static_cast<double>(kKeys) / static_cast<double>(size);
    for (const auto& places : counts) {
      for (const double count : places) {
        EXPECT_NEAR(count, expected, 10 * std::sqrt(expected)) << "of " << size;
      }
    }
  }
}

}  // namespace
}  // namespace ffdl::data
