#include "elastic/step/device_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/elements.h"
#include "support/guarded_device.h"
#include "support/status_matchers.h"

namespace ffdl::elastic {
namespace {

using testing::Elements;

// Returns values for which each order of addition has its own bits.
Elements many_bits(DType type, uint64_t count, uint64_t offset) {
  Elements values(type, count, offset);
  for (uint64_t i = 0; i < count; ++i) {
    values.set(i, std::sin(static_cast<double>(i)) * std::exp2(static_cast<double>(i % 13)));
  }
  return values;
}

TEST(DeviceNorm, HasTheBitsOfTheHost) {
  testing::HostDevice side;
  ASSERT_OK_AND_ASSIGN(DeviceNorm norm, DeviceNorm::create({&side, 0}));
  for (const DType type : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    for (const uint64_t count : {0UL, 1UL, 1023UL, 1025UL, 64UL * 1024, 100UL * 1024 + 17}) {
      Elements one = many_bits(type, count, 1);
      Elements two = many_bits(DType::kFloat32, 2050, 4);
      Elements other = many_bits(type, count, 8);
      for (uint64_t i = 0; i < count; i += 3) other.set(i, 1);
      const std::vector<Buffer> buffers = {one.buffer(), two.buffer()};
      const std::vector<Buffer> others = {other.buffer(), two.buffer()};
      for (const BlockSample sample : {BlockSample{1, 0}, {8, 3}, {1000, 4}}) {
        ASSERT_OK_AND_ASSIGN(const double got, norm.squared_norm(buffers, sample));
        EXPECT_EQ(got, squared_norm(buffers, sample));
        ASSERT_OK_AND_ASSIGN(const double distance, norm.squared_distance(buffers, others, sample));
        EXPECT_EQ(distance, squared_distance(buffers, others, sample));
      }
    }
  }
}

// Copies the result to the host in several parts.
TEST(DeviceNorm, OfMoreBlocksThanComeAtOnce) {
  testing::HostDevice side;
  ASSERT_OK_AND_ASSIGN(DeviceNorm norm, DeviceNorm::create({&side, 0}, 10));
  Elements values = many_bits(DType::kFloat32, 1024 * 53 + 5, 4);
  const std::vector<Buffer> buffers = {values.part(0, 3 * 1024 + 1), values.buffer(),
                                       values.part(0, 7)};
  ASSERT_OK_AND_ASSIGN(const double got, norm.squared_norm(buffers));
  EXPECT_EQ(got, squared_norm(buffers));
}

// The GPU alone orders the work behind that of the default stream.
TEST(DeviceNorm, ComesBehindTheDefaultStream) {
  const auto late = std::make_shared<testing::LateStream>();
  testing::GuardedDevice side(late);
  ASSERT_OK_AND_ASSIGN(DeviceNorm norm, DeviceNorm::create({&side, 0}));
  testing::GuardedMemory held(2 * sizeof(float));
  const Buffer buffer = {held.data(), 2};
  late->give([&] {
    auto* const values = static_cast<float*>(testing::GuardedMemory::reach(held.data()));
    values[0] = 3;
    values[1] = 4;
  });
  ASSERT_OK_AND_ASSIGN(const double got, norm.squared_norm({&buffer, 1}));
  EXPECT_EQ(got, 25);
}

}  // namespace
}  // namespace ffdl::elastic
