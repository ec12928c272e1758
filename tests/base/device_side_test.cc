#include "base/device_side.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/host_device.h"
#include "support/status_matchers.h"

namespace ffdl::base {
namespace {

// Tells which devices were chosen.
class TwoDevices final : public testing::HostDevice {
 public:
  Result<int> in_use() override { return used.back(); }
  Status use(int device) override {
    if (device > 1) return Status(StatusCode::kInvalidArgument, "there are two");
    used.push_back(device);
    return {};
  }
  std::vector<int> used = {0};
};

TEST(DeviceSide, AThreadGetsItsDeviceBack) {
  TwoDevices side;
  {
    const DeviceUse other(side, 1);
    EXPECT_OK(other.status());
    const DeviceUse same(side, 1);
    EXPECT_OK(same.status());
    EXPECT_EQ(side.used, (std::vector<int>{0, 1}));
  }
  EXPECT_EQ(side.used, (std::vector<int>{0, 1, 0}));
  const DeviceUse none(side, 2);
  EXPECT_FAILS(none.status(), StatusCode::kInvalidArgument, "there are two");
}

// base/device.h, whatever it says on this machine.
TEST(DeviceSide, GpusAreThoseOfThisMachine) {
  const auto side = gpu_side();
  EXPECT_EQ(side->in_use().status().code(), device_in_use().status().code());
  int here = 0;
  EXPECT_EQ(side->holds(&here).status().code(), is_device_memory(&here).status().code());
  EXPECT_EQ(side->follow(nullptr, nullptr).code(), follow_stream(nullptr, nullptr).code());
  alignas(4096) std::byte page[4096] = {};
  EXPECT_EQ(side->pin(page, sizeof page).status().code(),
            pin_pages(page, sizeof page).status().code());
  EXPECT_EQ(side->make_stream().status().code(), make_device_stream().status().code());
  EXPECT_EQ(side->allocate(64).status().code(), allocate_on_device(64).status().code());
  EXPECT_EQ(side->allocate_pinned(64).status().code(), allocate_pinned(64).status().code());
  EXPECT_EQ(side->wait(nullptr).code(), wait_for_device(nullptr).code());
}

}  // namespace
}  // namespace ffdl::base
