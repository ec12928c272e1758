#include "base/element_pack.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace ffdl::base {
namespace {

TEST(LaunchShape, IsEnoughForSmallArraysAndNoMoreThanAGpuHolds) {
  struct Case {
    uint64_t count;
    uint32_t multiprocessors;
    uint32_t blocks;
  };
  constexpr Case kCases[] = {
      {0, 132, 0},
      {1, 132, 1},
      {1024, 132, 1},  // 256 threads with a pack each
      {1025, 132, 2},
      {1024 * 132 * 32, 132, 132 * 32},
      {1024 * 132 * 32 + 1, 132, 132 * 32},  // threads take several packs each
      {std::numeric_limits<uint64_t>::max(), 1, 32},
  };
  for (const Case& c : kCases) {
    EXPECT_EQ(launch_shape(c.count, c.multiprocessors).blocks, c.blocks) << c.count;
  }
}

TEST(ElementPack, IsOneInstructionsBytesAndNeverMore) {
  EXPECT_EQ(alignof(ElementPack<uint8_t>), 4U);
  EXPECT_EQ(alignof(ElementPack<uint16_t>), 8U);
  EXPECT_EQ(alignof(ElementPack<float>), kDeviceAlignment);
  EXPECT_EQ(alignof(ElementPack<double>), kDeviceAlignment);
  EXPECT_EQ(sizeof(ElementPack<double>), 4 * sizeof(double));
}

}  // namespace
}  // namespace ffdl::base
