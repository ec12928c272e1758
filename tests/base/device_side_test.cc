#include "base/device_side.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "support/host_device.h"
#include "support/status_matchers.h"

namespace ffdl::base {
namespace {

// Records which devices were chosen. A thread that chose none has the first device.
class TwoDevices final : public testing::HostDevice {
 public:
  explicit TwoDevices(std::vector<int> chosen) : used(std::move(chosen)) {}
  Result<int> in_use() override { return used.empty() ? 0 : used.back(); }
  Result<bool> is_used(int device) override { return std::ranges::count(used, device) > 0; }
  Status use(int device) override {
    if (device > 1) return Status(StatusCode::kInvalidArgument, "there are two");
    used.push_back(device);
    return {};
  }
  std::vector<int> used;
};

TEST(DeviceSide, AThreadGetsItsDeviceBack) {
  TwoDevices side({0});
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

// Models a thread of ffdl in a process that uses another device.
TEST(DeviceSide, WhatNobodyUsesIsNotGivenBack) {
  TwoDevices side({});
  for (int turn = 0; turn < 2; ++turn) {
    const DeviceUse other(side, 1);
    EXPECT_OK(other.status());
  }
  EXPECT_EQ(side.used, (std::vector<int>{1}));
}

// Expects the results of base/device.h, whatever they are on this machine.
TEST(DeviceSide, GpusAreThoseOfThisMachine) {
  const auto side = gpu_side();
  EXPECT_EQ(side->in_use().status().code(), device_in_use().status().code());
  EXPECT_EQ(side->is_used(0).status().code(), is_device_used(0).status().code());
  int here = 0;
  EXPECT_EQ(side->holds(&here).status().code(), is_device_memory(&here).status().code());
  EXPECT_EQ(side->follow(nullptr, nullptr).code(), follow_stream(nullptr, nullptr).code());
  alignas(4096) std::byte page[4096] = {};
  EXPECT_EQ(side->pin(page, sizeof page).status().code(),
            pin_pages(page, sizeof page).status().code());
  EXPECT_EQ(side->make_stream().status().code(), make_device_stream().status().code());
  EXPECT_EQ(side->allocate(64).status().code(), allocate_on_device(64).status().code());
  EXPECT_EQ(side->allocate_pinned(64).status().code(), allocate_pinned(64).status().code());
  EXPECT_EQ(side->allocate_shareable(64).status().code(),
            allocate_shareable_on_device(64).status().code());
  EXPECT_EQ(side->map_shareable(-1, 64).status().code(), map_on_device(-1, 64).status().code());
  EXPECT_EQ(side->wait(nullptr).code(), wait_for_device(nullptr).code());
}

}  // namespace
}  // namespace ffdl::base
