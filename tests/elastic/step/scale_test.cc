#include "elastic/step/scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/half_kernels.h"
#include "support/elements.h"
#include "support/host_device.h"
#include "support/status_matchers.h"

namespace ffdl::elastic {
namespace {

TEST(Weigh, FloatsAtAnyAddress) {
  std::vector<std::byte> bytes(1 + 5 * sizeof(float));
  const float values[] = {1, -2, 3.5F, 0, 1e30F};
  std::memcpy(bytes.data() + 1, values, sizeof values);
  const Buffer buffer = {bytes.data() + 1, 5, DType::kFloat32};
  scale({&buffer, 1}, 0.25);
  float after[5];
  std::memcpy(after, bytes.data() + 1, sizeof after);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(after[i], values[i] * 0.25F);
}

TEST(Weigh, DoublesInSeveralBuffers) {
  std::vector<double> one = {1, 2};
  std::vector<double> two = {3};
  const Buffer buffers[] = {{one.data(), 2, DType::kFloat64},
                            {nullptr, 0, DType::kFloat64},
                            {two.data(), 1, DType::kFloat64}};
  scale(buffers, 3);
  EXPECT_EQ(one, (std::vector<double>{3, 6}));
  EXPECT_EQ(two, (std::vector<double>{9}));
}

TEST(Weigh, SixteenBitTypes) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    std::vector<float> wide(2500);
    for (size_t i = 0; i < wide.size(); ++i) wide[i] = static_cast<float>(i % 64);
    std::vector<uint16_t> narrow(wide.size());
    base::narrow(dtype, wide.data(), narrow.data(), wide.size());
    const Buffer buffer = {narrow.data(), narrow.size(), dtype};
    scale({&buffer, 1}, 0.5);
    std::vector<float> after(wide.size());
    base::widen(dtype, narrow.data(), after.data(), after.size());
    for (size_t i = 0; i < wide.size(); ++i) ASSERT_EQ(after[i], wide[i] / 2) << i;
  }
}

// A rank without samples may hold any values.
TEST(Weigh, NothingCountsTimesZero) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16}) {
    std::vector<std::byte> bytes(7 * element_bytes(dtype), std::byte{0xFF});  // NaN
    const Buffer buffer = {bytes.data(), 7, dtype};
    scale({&buffer, 1}, 0);
    for (const std::byte byte : bytes) EXPECT_EQ(byte, std::byte{});
  }
}

TEST(Weigh, OnAGpuTheBitsAreThoseOfTheHost) {
  testing::HostDevice side;
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    testing::Elements here(dtype, 1537, 1);
    testing::Elements there(dtype, 1537, 1);
    for (uint64_t i = 0; i < here.size(); ++i) {
      here.set(i, std::sin(static_cast<double>(i)));
      there.set(i, here.get(i));
    }
    const Buffer lists[2][2] = {{here.part(0, 700), here.part(700, 837)},
                                {there.part(0, 700), there.part(700, 837)}};
    EXPECT_OK(scale(base::Gpu{}, lists[0], 0.3));
    EXPECT_OK(scale(base::Gpu{&side, 0}, lists[1], 0.3));
    EXPECT_EQ(std::memcmp(here.buffer().data, there.buffer().data, 1537 * element_bytes(dtype)), 0);
  }
}

TEST(Weigh, WhichTypesHaveAMean) {
  EXPECT_TRUE(base::is_floating(DType::kBFloat16));
  EXPECT_FALSE(base::is_floating(DType::kInt64));
}

}  // namespace
}  // namespace ffdl::elastic
