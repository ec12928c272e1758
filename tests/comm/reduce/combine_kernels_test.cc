#include "comm/reduce/combine_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace ffdl::comm {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};

// The plain reference of the kernel.
template <class T>
T plainly(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMean:
      return a + b;
    case ReduceOp::kMin:
      return std::isnan(a) ? a : std::isnan(b) || b < a ? b : a;
    case ReduceOp::kMax:
      return std::isnan(a) ? a : std::isnan(b) || b > a ? b : a;
    case ReduceOp::kProduct:
      return a * b;
  }
  return 0;
}

template <class T>
class CombineFloats : public ::testing::Test {};
using FloatTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(CombineFloats, FloatTypes);

TYPED_TEST(CombineFloats, EqualsThePlainTwinAtEveryOddSizeAndPlace) {
  using T = TypeParam;
  for (const ReduceOp op : kOps) {
    for (uint64_t count = 0; count < 70; ++count) {
      std::vector<T> left(count + 1, T{7});
      std::vector<T> right(count + 1, T{7});
      for (uint64_t i = 0; i < count; ++i) {
        left[i] = static_cast<T>(std::sin(static_cast<double>(i)));
        right[i] = i % 11 == 3 ? std::numeric_limits<T>::quiet_NaN()
                               : static_cast<T>(std::cos(static_cast<double>(3 * i)));
        if (i % 13 == 5) left[i] = std::numeric_limits<T>::quiet_NaN();
      }
      std::vector<T> into(count + 1, T{-1});
      combine(op, left.data(), right.data(), into.data(), count);
      for (uint64_t i = 0; i < count; ++i) {
        const T expected = plainly(op, left[i], right[i]);
        ASSERT_TRUE(into[i] == expected || (std::isnan(into[i]) && std::isnan(expected))) << i;
      }
      EXPECT_EQ(into[count], T{-1}) << "wrote behind " << count;
      // the result overwrites one of the inputs
      combine(op, left.data(), right.data(), left.data(), count);
      EXPECT_EQ(std::memcmp(left.data(), into.data(), count * sizeof(T)), 0);
      EXPECT_EQ(left[count], T{7});
    }
  }
}

TEST(CombineIntegers, WrapsAroundAndCompares) {
  const int64_t left[] = {INT64_MAX, -5, INT64_MIN, 1};
  const int64_t right[] = {1, 3, -1, 2};
  int64_t into[4];
  combine(ReduceOp::kSum, left, right, into, 4);
  EXPECT_EQ(into[0], INT64_MIN);
  EXPECT_EQ(into[1], -2);
  combine(ReduceOp::kProduct, left, right, into, 4);
  EXPECT_EQ(into[1], -15);
  EXPECT_EQ(into[2], INT64_MIN);
  combine(ReduceOp::kMin, left, right, into, 4);
  EXPECT_EQ(into[0], 1);
  combine(ReduceOp::kMax, left, right, into, 4);
  EXPECT_EQ(into[3], 2);
}

}  // namespace
}  // namespace ffdl::comm
