#include "ps/segment/gradient_buffer.h"

#include <gtest/gtest.h>

#include <vector>

namespace ffdl::ps {
namespace {

class GradientBufferOf : public ::testing::TestWithParam<DType> {
 protected:
  static constexpr uint64_t kCount = 1'500;  // more than one piece, and no multiple of a vector

  GradientBufferOf() : memory_(kCount), buffer_(bytes(), GetParam()) {}
  std::byte* bytes() { return reinterpret_cast<std::byte*>(memory_.data()); }
  std::vector<float> read() const {
    std::vector<float> scratch(kCount);
    const float* values = buffer_.read(0, kCount, scratch.data());
    return {values, values + kCount};
  }
  static std::vector<float> small_integers() {  // exact in all types
    std::vector<float> values(kCount);
    for (uint64_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(i % 17) - 8;
    return values;
  }

  std::vector<float> memory_;
  GradientBuffer buffer_;
};

TEST_P(GradientBufferOf, WritesAddsAndScales) {
  const std::vector<float> values = small_integers();
  buffer_.write(0, values);
  EXPECT_EQ(read(), values);
  buffer_.add(0, 2, values, 3);
  buffer_.scale(700, 100, 0.5F);
  const std::vector<float> result = read();
  for (uint64_t i = 0; i < kCount; ++i) {
    const float expected = 5 * values[i] * (i >= 700 && i < 800 ? 0.5F : 1.0F);
    ASSERT_EQ(result[i], expected) << i;
  }
}

TEST_P(GradientBufferOf, ChangesNothingBesideAPart) {
  buffer_.write(0, small_integers());
  buffer_.write(3, std::vector<float>(5, 1.0F));
  buffer_.add(600, 1, std::vector<float>(7, 1.0F), 1);
  const std::vector<float> result = read();
  for (uint64_t i = 0; i < kCount; ++i) {
    float expected = small_integers()[i];
    if (i >= 3 && i < 8) expected = 1;
    if (i >= 600 && i < 607) expected += 1;
    ASSERT_EQ(result[i], expected) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GradientBufferOf,
                         ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16));

TEST(GradientBuffer, Float32IsReadInPlace) {
  std::vector<float> memory = {1, 2, 3};
  const GradientBuffer buffer(reinterpret_cast<std::byte*>(memory.data()), DType::kFloat32);
  EXPECT_EQ(buffer.read(1, 2, nullptr), memory.data() + 1);
}

}  // namespace
}  // namespace ffdl::ps
