#include <gtest/gtest.h>

#include <cstring>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "ffdl/data/sample_batch.h"
#include "ffdl/log.h"
#include "support/host_device.h"

namespace ffdl {
namespace {

using testing::HostDevice;
using testing::HostPins;

class PinnedMemoryTest : public ::testing::Test {
 protected:
  PinnedMemoryTest() {
    set_log_sink([this](LogLevel, std::string_view line) { lines_.emplace_back(line); });
  }
  ~PinnedMemoryTest() override {
    set_log_sink(nullptr);
    EXPECT_EQ(pins_.bytes(), 0U);
  }

  HostPins& pins_ = HostPins::of_this_process();
  std::vector<std::string> lines_{};
};

TEST_F(PinnedMemoryTest, IsPinnedUntilItIsGivenBack) {
  HostDevice device;
  PinnedMemory memory(&device);
  EXPECT_EQ(memory.pinned_bytes(), 0U);
  const auto small = memory.allocate(1);
  const auto large = memory.allocate((size_t{3} << 20) + 1);
  EXPECT_EQ(small.size(), size_t{1} << 20);
  EXPECT_EQ(large.size(), (size_t{3} << 20) + 4096);
  for (const auto& given : {small, large}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(given.data()) % 4096, 0U);
    EXPECT_TRUE(pins_.holds(given));
    std::memset(given.data(), 1, given.size());
  }
  EXPECT_EQ(memory.pinned_bytes(), small.size() + large.size());
  memory.give_back(small);
  EXPECT_EQ(memory.pinned_bytes(), large.size());
  EXPECT_EQ(pins_.bytes(), large.size());
  memory.give_back(large);
  EXPECT_EQ(memory.pinned_bytes(), 0U);
  EXPECT_EQ(memory.not_pinned(), "");
  EXPECT_TRUE(lines_.empty());
}

TEST_F(PinnedMemoryTest, SeveralThreadsAsk) {
  HostDevice device;
  PinnedMemory memory(&device);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (size_t round = 0; round < 20; ++round) {
        SampleBatch batch(&memory);
        const auto sample = batch.allocate(100 + round);
        std::memset(sample.data(), 1, sample.size());
        ASSERT_TRUE(pins_.holds(sample));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(memory.pinned_bytes(), 0U);
}

// Models a system that permits 2 MB of pinned memory.
class DeviceThatPinsLittle final : public HostDevice {
 public:
  Result<base::SidePin> pin(void* pages, uint64_t bytes) override {
    ++asked;
    if (HostPins::of_this_process().bytes() + bytes > (uint64_t{2} << 20)) {
      return Status(StatusCode::kExhausted, "pin pages: the limit is 2 MB");
    }
    return HostDevice::pin(pages, bytes);
  }

  int asked = 0;
};

TEST_F(PinnedMemoryTest, WorksUnpinnedAndSaysSoOnce) {
  DeviceThatPinsLittle device;
  PinnedMemory memory(&device);
  std::vector<std::span<std::byte>> given;
  for (int i = 0; i < 4; ++i) {
    given.push_back(memory.allocate(100));
    std::memset(given.back().data(), 1, given.back().size());
  }
  EXPECT_EQ(memory.pinned_bytes(), uint64_t{2} << 20);
  EXPECT_EQ(device.asked, 3);
  EXPECT_EQ(memory.not_pinned(), "pin pages: the limit is 2 MB");
  for (const auto& pages : given) memory.give_back(pages);
  EXPECT_EQ(memory.pinned_bytes(), 0U);
  ASSERT_EQ(lines_.size(), 1U);
  EXPECT_NE(lines_[0].find("not pinned"), std::string::npos) << lines_[0];
}

// Two threads are pinning when it fails.
class DeviceThatFailsTwo final : public HostDevice {
 public:
  Result<base::SidePin> pin(void*, uint64_t) override {
    both_.arrive_and_wait();
    return Status(StatusCode::kExhausted, "pin pages: the limit is 0 MB");
  }

 private:
  std::latch both_{2};
};

TEST_F(PinnedMemoryTest, OfTwoThreadsThatFailOneSaysSo) {
  DeviceThatFailsTwo device;
  PinnedMemory memory(&device);
  const auto ask = [&] { memory.give_back(memory.allocate(100)); };
  std::thread other(ask);
  ask();
  other.join();
  EXPECT_EQ(lines_.size(), 1U);
}

class NoDevice final : public HostDevice {
 public:
  Result<int> in_use() override { return Status(StatusCode::kUnimplemented, "there is no GPU"); }
  Result<base::SidePin> pin(void*, uint64_t) override {
    ADD_FAILURE() << "nothing can be pinned";
    return Status(StatusCode::kInternal, "");
  }
};

TEST_F(PinnedMemoryTest, WithoutAGpuItIsMemoryLikeAnyOther) {
  NoDevice none;
  PinnedMemory memory(&none);
  EXPECT_EQ(memory.not_pinned(), "there is no GPU");
  const auto given = memory.allocate(100);
  std::memset(given.data(), 1, given.size());
  EXPECT_EQ(memory.pinned_bytes(), 0U);
  memory.give_back(given);
  ASSERT_EQ(lines_.size(), 1U);
  EXPECT_NE(lines_[0].find("there is no GPU"), std::string::npos) << lines_[0];
}

}  // namespace
}  // namespace ffdl
