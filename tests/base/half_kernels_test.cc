#include "base/half_kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace ffdl::base {
namespace {

// Returns the value of the 16 bits by the definition of the formats.
double meaning(DType type, uint16_t bits) {
  const int mantissa_bits = type == DType::kBFloat16 ? 7 : 10;
  const int bias = type == DType::kBFloat16 ? 127 : 15;
  const int top = 2 * bias + 1;
  const double sign = bits >> 15 ? -1 : 1;
  const int exponent = (bits & 0x7FFF) >> mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  if (exponent == top) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias)
                               : std::ldexp(1 + fraction, exponent - bias));
}

class HalfKernels : public ::testing::TestWithParam<DType> {};

TEST_P(HalfKernels, WidenGivesTheMeaningOfEveryBitPattern) {
  std::vector<uint16_t> all(1 << 16);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  std::vector<float> wide(all.size());
  widen(GetParam(), all.data(), wide.data(), all.size());
  std::vector<uint16_t> back(all.size());
  narrow(GetParam(), wide.data(), back.data(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const double expected = meaning(GetParam(), all[i]);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide[i])) << i;
      ASSERT_TRUE(std::isnan(meaning(GetParam(), back[i]))) << i;
    } else {
      ASSERT_EQ(wide[i], expected) << i;
      ASSERT_EQ(back[i], all[i]);
    }
  }
}

// Numbers between two neighbours of the format are rounded to the nearer one. The midpoint is
// rounded to the even one.
TEST_P(HalfKernels, NarrowRoundsToTheNearestAndTiesToEven) {
  const uint16_t infinity = GetParam() == DType::kBFloat16 ? 0x7F80 : 0x7C00;
  std::vector<float> values;
  std::vector<uint16_t> expected;
  for (uint16_t low = 0; low + 1 < infinity; ++low) {
    const auto high = static_cast<uint16_t>(low + 1);
    const double middle = (meaning(GetParam(), low) + meaning(GetParam(), high)) / 2;
    const auto exact = static_cast<float>(middle);
    const bool representable = double{exact} == middle;  // below 2^-149 it is not representable
    const uint16_t even = low % 2 == 0 ? low : high;
    if (representable) {
      values.insert(values.end(), {std::nextafter(exact, 0.0F), exact,
                                   std::nextafter(exact, std::numeric_limits<float>::max())});
      expected.insert(expected.end(), {low, even, high});
    }
  }
  ASSERT_GT(values.size(), 90'000U);
  std::vector<uint16_t> rounded(values.size());
  narrow(GetParam(), values.data(), rounded.data(), values.size());
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(rounded[i], expected[i]) << values[i];
  for (float& value : values) value = -value;
  narrow(GetParam(), values.data(), rounded.data(), values.size());
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(rounded[i], expected[i] | 0x8000);
}

TEST_P(HalfKernels, BeyondTheRangeIsInfinite) {
  const float largest = largest_finite(GetParam());
  const float values[] = {largest, std::numeric_limits<float>::max(),
                          -std::numeric_limits<float>::infinity()};
  uint16_t halves[3] = {};
  narrow(GetParam(), values, halves, 3);
  EXPECT_EQ(meaning(GetParam(), halves[0]), largest);
  EXPECT_EQ(meaning(GetParam(), halves[1]), std::numeric_limits<double>::infinity());
  EXPECT_EQ(meaning(GetParam(), halves[2]), -std::numeric_limits<double>::infinity());
}

TEST_P(HalfKernels, NothingBehindAnOddSizeIsWritten) {
  for (uint64_t count = 0; count < 40; ++count) {
    const std::vector<float> values(count, 1.5F);
    std::vector<uint16_t> halves(count + 1, 7);
    narrow(GetParam(), values.data(), halves.data(), count);
    EXPECT_EQ(halves[count], 7);
    std::vector<float> wide(count + 1, 9.0F);
    widen(GetParam(), halves.data(), wide.data(), count);
    EXPECT_EQ(wide[count], 9.0F);
    for (uint64_t i = 0; i < count; ++i) EXPECT_EQ(wide[i], 1.5F);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, HalfKernels, ::testing::Values(DType::kBFloat16, DType::kFloat16));

TEST(HalfKernels, LargestFiniteOfFloat32) {
  EXPECT_EQ(largest_finite(DType::kFloat32), std::numeric_limits<float>::max());
}

}  // namespace
}  // namespace ffdl::base
