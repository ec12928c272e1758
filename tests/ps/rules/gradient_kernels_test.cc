#include "ps/rules/gradient_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace ffdl::ps {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();

std::vector<float> ramp(uint64_t count, float factor = 1) {
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = factor * (static_cast<float>(i % 13) - 6);
  return values;
}

TEST(GradientKernels, InspectAddsSquaresOfOddSizes) {
  for (uint64_t count = 0; count < 70; ++count) {
    const std::vector<float> values = ramp(count, 0.5F);
    double expected = 0;
    for (const float value : values) expected += double{value} * double{value};
    const GradientFacts facts = inspect_gradient(values.data(), count);
    EXPECT_TRUE(facts.finite);
    EXPECT_DOUBLE_EQ(facts.square_sum, expected) << count;
  }
}

TEST(GradientKernels, SquaresOfLargeElementsDoNotOverflow) {
  const std::vector<float> values(100, 3e38F);
  EXPECT_NEAR(std::sqrt(inspect_gradient(values.data(), 100).square_sum), 3e39, 1e33);
}

TEST(GradientKernels, EveryPlaceOfANonFiniteElementIsFound) {
  constexpr uint64_t kCount = 61;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (uint64_t place = 0; place < kCount; ++place) {
      std::vector<float> values = ramp(kCount);
      values[place] = bad;
      EXPECT_FALSE(inspect_gradient(values.data(), kCount).finite) << place;
      EXPECT_EQ(find_beyond(values.data(), kCount, kLargest), place);
    }
  }
  EXPECT_EQ(find_beyond(ramp(kCount).data(), kCount, kLargest), kCount);
}

TEST(GradientKernels, DenormalAndLargestElementsAreFinite) {
  const std::vector<float> values = {std::numeric_limits<float>::denorm_min(),
                                     std::numeric_limits<float>::max(), -0.0F,
                                     std::numeric_limits<float>::lowest()};
  EXPECT_TRUE(inspect_gradient(values.data(), values.size()).finite);
}

TEST(GradientKernels, LargestMagnitudeAtEveryPlace) {
  constexpr uint64_t kCount = 61;
  for (uint64_t place = 0; place < kCount; ++place) {
    std::vector<float> values = ramp(kCount);
    values[place] = -1'000;
    EXPECT_EQ(largest_magnitude(values.data(), kCount), 1'000.0F) << place;
    EXPECT_EQ(find_beyond(values.data(), kCount, 999), place);
    EXPECT_EQ(find_beyond(values.data(), kCount, 1'000), kCount);
  }
  EXPECT_EQ(largest_magnitude(nullptr, 0), 0.0F);
}

TEST(GradientKernels, CopiesOddSizesAndNothingBehind) {
  for (uint64_t count = 0; count < 70; ++count) {
    std::vector<float> to(count + 1, 99);
    const std::vector<float> from = ramp(count);
    copy_floats(to.data(), from.data(), count);
    EXPECT_EQ(std::vector(to.begin(), to.end() - 1), from);
    EXPECT_EQ(to.back(), 99);
  }
}

TEST(GradientKernels, ScaleAndAddOfOddSizes) {
  for (uint64_t count = 0; count < 70; ++count) {
    std::vector<float> to = ramp(count);
    const std::vector<float> from = ramp(count, 4);
    scale_and_add(to.data(), 0.5F, from.data(), 0.25F, count);
    for (uint64_t i = 0; i < count; ++i) EXPECT_EQ(to[i], 0.5F * ramp(count)[i] + 0.25F * from[i]);
    std::vector<float> sum = ramp(count);
    add_scaled(sum.data(), from.data(), 2, count);
    for (uint64_t i = 0; i < count; ++i) EXPECT_EQ(sum[i], ramp(count)[i] + 2 * from[i]);
  }
}

TEST(GradientKernels, TheTailRoundsAsTheBody) {
  const std::vector<float> from(33, 0.1F);
  std::vector<float> to(33, 0.3F);
  scale_and_add(to.data(), 0.7F, from.data(), 0.9F, 33);
  for (const float value : to) EXPECT_EQ(value, to[0]);
}

}  // namespace
}  // namespace ffdl::ps
