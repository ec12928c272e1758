#include "elastic/step/gradient_sum.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/half_kernels.h"
#include "support/host_device.h"
#include "support/status_matchers.h"

namespace ffdl::elastic {
namespace {

// A gradient of all dtypes. Some of it is at odd addresses and longer than a block.
class MixedGradient {
 public:
  static constexpr size_t kCount = 1500;

  std::vector<Buffer> buffers() {
    return {{floats_.data() + 1, kCount, DType::kFloat32},
            {doubles_.data(), kCount, DType::kFloat64},
            {nullptr, 0, DType::kFloat32},
            {halves_.data(), kCount, DType::kBFloat16},
            {floats_.data() + 3 + 4 * kCount, 2, DType::kFloat32}};
  }
  void set(auto value) {
    for (size_t i = 0; i < kCount; ++i) {
      write(floats_.data() + 1, i, static_cast<float>(value(i)));
      doubles_[i] = value(i);
      const auto wide = static_cast<float>(value(i));
      base::narrow(DType::kBFloat16, &wide, &halves_[i], 1);
    }
    for (size_t i = 0; i < 2; ++i) {
      write(floats_.data() + 3 + 4 * kCount, i, static_cast<float>(value(i)));
    }
  }
  bool operator==(const MixedGradient& other) const {
    return floats_ == other.floats_ && halves_ == other.halves_ &&
           std::memcmp(doubles_.data(), other.doubles_.data(), kCount * sizeof(double)) == 0;
  }

 private:
  static void write(std::byte* to, size_t i, float value) {
    std::memcpy(to + i * sizeof value, &value, sizeof value);
  }

  std::vector<std::byte> floats_ = std::vector<std::byte>(4 * kCount + 12);
  std::vector<double> doubles_ = std::vector<double>(kCount);
  std::vector<uint16_t> halves_ = std::vector<uint16_t>(kCount);
};

// Returns a value that uses every bit of its mantissa.
double value_of_many_bits(size_t i) { return std::sin(static_cast<double>(i) + 0.5) * 1e3; }

TEST(GradientSum, OnePartHasTheBitsThatItWasGivenWith) {
  MixedGradient gradient;
  const auto buffers = gradient.buffers();
  GradientSum sum(buffers);
  const auto odd = [](size_t i) {
    return i % 3 == 0   ? -0.0
           : i % 3 == 1 ? std::numeric_limits<double>::infinity()
                        : value_of_many_bits(i);
  };
  for (int step = 0; step < 2; ++step) {
    gradient.set(odd);
    ASSERT_OK(sum.add(7));
    gradient.set(value_of_many_bits);  // its memory is free for the next part
    ASSERT_OK(sum.add(0));             // which has no samples
    EXPECT_EQ(sum.samples(), 7U);
    ASSERT_OK(sum.finish());
    MixedGradient expected;
    expected.set(odd);
    EXPECT_EQ(gradient, expected);
    EXPECT_EQ(sum.samples(), 0U);
  }
}

// Without rounding, the division into parts does not matter.
TEST(GradientSum, ExactNumbersHaveTheMeanOfTheWhole) {
  const auto of_sample = [](uint64_t sample) {
    return [sample](size_t i) { return static_cast<double>((sample * 5 + i) % 8); };
  };
  const auto mean_of = [&](uint64_t begin, uint64_t end) {
    return [&of_sample, begin, end](size_t i) {
      double sum = 0;
      for (uint64_t sample = begin; sample < end; ++sample) sum += of_sample(sample)(i);
      return sum / static_cast<double>(end - begin);
    };
  };
  MixedGradient whole;
  whole.set(mean_of(0, 16));
  for (const std::vector<uint64_t>& parts :
       {std::vector<uint64_t>{16}, {8, 8}, {4, 4, 4, 4}, {4, 8, 4}, {8, 4, 2, 1, 1}}) {
    MixedGradient gradient;
    const auto buffers = gradient.buffers();
    GradientSum sum(buffers);
    uint64_t begin = 0;
    for (const uint64_t part : parts) {
      gradient.set(mean_of(begin, begin + part));
      ASSERT_OK(sum.add(part));
      begin += part;
    }
    ASSERT_OK(sum.finish());
    EXPECT_EQ(gradient, whole) << parts.size() << " parts";
  }
}

TEST(GradientSum, WeighsPartsByTheirSamplesAndForgetsWhatWasDropped) {
  std::vector<float> values = {100};
  const Buffer buffer = {values.data(), 1};
  GradientSum sum({&buffer, 1});
  ASSERT_OK(sum.add(9));
  sum.drop();
  for (const auto& [mean, samples] : {std::pair(1.0F, 3U), {5.0F, 1U}, {2.0F, 4U}}) {
    values[0] = mean;
    ASSERT_OK(sum.add(samples));
  }
  EXPECT_EQ(sum.samples(), 8U);
  ASSERT_OK(sum.finish());
  EXPECT_FLOAT_EQ(values[0], (3 * 1 + 1 * 5 + 4 * 2) / 8.0F);
}

TEST(GradientSum, OnAGpuItHasTheBitsOfTheHost) {
  testing::HostDevice side;
  MixedGradient here;
  MixedGradient there;
  const auto buffers = here.buffers();
  const auto buffers_there = there.buffers();
  GradientSum sum(buffers);
  GradientSum sum_there(buffers_there, {&side, 0});
  for (int step = 0; step < 2; ++step) {
    for (const uint64_t samples : {7U, 7U, 3U, 0U, 5U}) {
      const auto values = [&](size_t i) { return value_of_many_bits(i * samples); };
      here.set(values);
      there.set(values);
      ASSERT_OK(sum.add(samples));
      ASSERT_OK(sum_there.add(samples));
    }
    ASSERT_OK(sum.finish());
    ASSERT_OK(sum_there.finish());
    EXPECT_EQ(here, there);
  }
}

// A device whose memory is full.
class FullDevice final : public testing::HostDevice {
 public:
  Result<base::SideMemory> allocate(uint64_t) override {
    return Status(StatusCode::kExhausted, "the GPU's memory is full");
  }
};

TEST(GradientSum, SaysWhatItsGpuFailsWith) {
  FullDevice side;
  float value = 1;
  const Buffer buffer = {&value, 1};
  GradientSum sum({&buffer, 1}, {&side, 0});
  EXPECT_EQ(sum.add(1).code(), StatusCode::kExhausted);
  EXPECT_EQ(sum.samples(), 0U);
}

// Adds thousands of parts of 16 bits. Each would be lost beside a sum of 16 bits.
TEST(GradientSum, SixteenBitsAreRoundedOnce) {
  constexpr int kParts = 3000;
  uint16_t one = 0;
  const float wide = 1;
  base::narrow(DType::kBFloat16, &wide, &one, 1);
  uint16_t value = 0;
  const Buffer buffer = {&value, 1, DType::kBFloat16};
  GradientSum sum({&buffer, 1});
  for (int part = 0; part < kParts; ++part) {
    value = one;
    ASSERT_OK(sum.add(2));
  }
  ASSERT_OK(sum.finish());
  EXPECT_EQ(value, one);
}

}  // namespace
}  // namespace ffdl::elastic
