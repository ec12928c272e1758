#include "base/half_arithmetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/half_kernels.h"

namespace ffdl::base {
namespace {

template <class T>
class HalfArithmetic : public ::testing::Test {
 public:
  static constexpr DType kType = std::is_same_v<T, BFloat16> ? DType::kBFloat16 : DType::kFloat16;
};
using HalfTypes = ::testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(HalfArithmetic, HalfTypes);

TYPED_TEST(HalfArithmetic, WidensEveryPatternAsTheKernelsDo) {
  std::vector<uint16_t> halves(1 << 16);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  std::vector<float> expected(halves.size());
  widen(this->kType, halves.data(), expected.data(), halves.size());
  for (size_t i = 0; i < halves.size(); ++i) {
    ASSERT_EQ(bits_of(widened(TypeParam{halves[i]})), bits_of(expected[i])) << i;
  }
}

// Covers all exponents and signs, and NaN. The mantissas round to either side, to even, up to the
// next exponent and to infinity.
TYPED_TEST(HalfArithmetic, NarrowsAsTheKernelsDo) {
  constexpr uint32_t kMantissas[] = {0x000000, 0x000001, 0x000FFF, 0x001000, 0x001001, 0x003000,
                                     0x007FFF, 0x008000, 0x008001, 0x018000, 0x3FFFFF, 0x400000,
                                     0x7FEFFF, 0x7FF000, 0x7FF001, 0x7F7FFF, 0x7F8000, 0x7FFFFF};
  std::vector<float> values;
  for (uint32_t top = 0; top < 512; ++top) {
    for (const uint32_t mantissa : kMantissas) values.push_back(float_of(top << 23 | mantissa));
  }
  std::vector<uint16_t> expected(values.size());
  base::narrow(this->kType, values.data(), expected.data(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    TypeParam half;
    narrow(values[i], half);
    ASSERT_EQ(half.bits, expected[i]) << values[i] << ' ' << bits_of(values[i]);
  }
}

}  // namespace
}  // namespace ffdl::base
