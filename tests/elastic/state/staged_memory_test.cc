#include "elastic/state/staged_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "elastic/state/state_copy.h"
#include "support/guarded_device.h"
#include "support/status_matchers.h"

namespace ffdl::elastic {
namespace {

using testing::GuardedDevice;
using testing::GuardedMemory;
using testing::LateStream;

// Floats, some in a device's memory, with a copy of all in the host's.
class Mixed {
 public:
  // Makes buffers of these numbers of elements. Every third one is in the host's memory.
  explicit Mixed(const std::vector<size_t>& sizes) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const size_t size = sizes[i];
      std::vector<float> values(size);
      std::iota(values.begin(), values.end(), static_cast<float>(i));
      const bool on_host = i % 3 == 2;
      held_.push_back(std::make_unique<GuardedMemory>(size * sizeof(float) + 1));
      copies_.push_back(values);
      hosts_.push_back(values);
      void* const data = on_host ? static_cast<void*>(hosts_.back().data()) : held_.back()->data();
      buffers_.push_back({data, size});
      std::ranges::copy(values, static_cast<float*>(GuardedMemory::reach(data)));
    }
  }
  std::span<const Buffer> buffers() const { return buffers_; }
  // Returns the copies in the host's memory.
  std::vector<Buffer> copies() {
    std::vector<Buffer> all;
    for (auto& copy : copies_) all.push_back({copy.data(), copy.size()});
    return all;
  }
  bool is_as_the_copies() const {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const auto* const has = static_cast<const float*>(GuardedMemory::reach(buffers_[i].data));
      if (!std::equal(copies_[i].begin(), copies_[i].end(), has)) return false;
    }
    return true;
  }

 private:
  std::vector<std::unique_ptr<GuardedMemory>> held_;
  std::vector<std::vector<float>> copies_;
  std::vector<std::vector<float>> hosts_;
  std::vector<Buffer> buffers_;
};

// Counts copies. The copy with this number and all later ones fail.
class CountedDevice final : public testing::HostDevice {
 public:
  explicit CountedDevice(int& copies, int fails_from = 1 << 20)
      : copies_(copies), fails_from_(fails_from) {}
  Result<bool> holds(const void* memory) override { return GuardedMemory::find(memory) != nullptr; }
  Status copy(void* to, const void* from, uint64_t bytes, base::DeviceStream stream) override {
    if (++copies_ >= fails_from_) return Status(StatusCode::kInternal, "the bus is broken");
    return HostDevice::copy(GuardedMemory::reach(to), GuardedMemory::reach(from), bytes, stream);
  }

 private:
  int& copies_;
  const int fails_from_;
};

constexpr uint64_t kSlice = base::kStatePieceBytes;
constexpr size_t kSliceFloats = kSlice / sizeof(float);

std::unique_ptr<StagedMemory> staged(std::unique_ptr<base::DeviceSide> side) {
  base::ChosenGpu chosen = {std::move(side), {}};
  chosen.gpu = {chosen.own_side.get(), 0};
  auto made = StagedMemory::create(std::move(chosen), kSlice);
  EXPECT_OK(made);
  return std::move(made).value();
}
std::unique_ptr<StagedMemory> staged() {
  return staged(std::make_unique<GuardedDevice>(std::make_shared<LateStream>()));
}

// Sizes around a piece and a slice, many small buffers in one slice, and none at all.
const std::vector<std::vector<size_t>> kSizes = {
    {},
    {0},
    {1},
    {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
    {kSliceFloats},
    {kSliceFloats - 1, 1, 1},
    {kSliceFloats + 1, 0, 5, kSliceFloats},
    {3 * kSliceFloats + 17, 2 * kSliceFloats, 100'000, 200'000, 0, 7},
};

TEST(StagedMemory, IsReadAsThatOfTheHost) {
  const auto memory = staged();
  for (const auto& sizes : kSizes) {
    Mixed values(sizes);
    EXPECT_EQ(hash_of(*memory, values.buffers(), {}).value(), hash_of(values.copies(), {}));
    EXPECT_TRUE(values.is_as_the_copies());
  }
}

TEST(StagedMemory, IsWrittenPieceAfterPiece) {
  const auto memory = staged();
  for (const auto& sizes : kSizes) {
    Mixed values(sizes);
    float next = 0.5F;
    const auto fill = [&](const Buffer& piece) -> Status {
      auto* const floats = static_cast<float*>(piece.data);
      for (uint64_t i = 0; i < piece.count; ++i) floats[i] = next++;
      return {};
    };
    EXPECT_OK(memory->visit(values.buffers(), Access::kWrite, fill));
    next = 0.5F;
    HostMemory host;
    EXPECT_OK(host.visit(values.copies(), Access::kWrite, fill));
    EXPECT_TRUE(values.is_as_the_copies());
  }
}

// The next slice is in transfer while one is visited. Small buffers share a slice.
TEST(StagedMemory, TheNextSliceIsAskedForBeforeOneIsVisited) {
  Mixed values({kSliceFloats, kSliceFloats});
  int copies = 0;
  const auto memory = staged(std::make_unique<CountedDevice>(copies));
  std::vector<int> asked;
  EXPECT_OK(memory->visit(values.buffers(), Access::kRead, [&](const Buffer&) -> Status {
    asked.push_back(copies);
    return {};
  }));
  EXPECT_EQ(asked, (std::vector<int>{2, 2}));
}

TEST(StagedMemory, WhatFailsIsSaid) {
  Mixed values({kSliceFloats, kSliceFloats});
  const auto nothing = [](const Buffer&) -> Status { return {}; };
  for (const Access access : {Access::kRead, Access::kWrite}) {
    for (int fails_from = 1; fails_from <= 2; ++fails_from) {
      int copies = 0;
      const auto memory = staged(std::make_unique<CountedDevice>(copies, fails_from));
      EXPECT_FAILS(memory->visit(values.buffers(), access, nothing), StatusCode::kInternal,
                   "the bus is broken");
    }
  }
  Mixed untouched({kSliceFloats, kSliceFloats});
  const auto memory = staged();
  int calls = 0;
  EXPECT_FAILS(memory->visit(untouched.buffers(), Access::kWrite,
                             [&](const Buffer&) {
                               ++calls;
                               return Status(StatusCode::kPeerLost, "nobody takes it");
                             }),
               StatusCode::kPeerLost, "nobody takes it");
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(untouched.is_as_the_copies());
}

// Later work of the default stream is not waited for: it may take as long as a step.
TEST(StagedMemory, SeesWhatWasGivenBeforeItFollowed) {
  const auto late = std::make_shared<LateStream>();
  const auto memory = staged(std::make_unique<GuardedDevice>(late));
  GuardedMemory held(sizeof(float));
  const Buffer buffer = {held.data(), 1};
  const auto give = [&](float value) {
    late->give([&held, value] { *static_cast<float*>(GuardedMemory::reach(held.data())) = value; });
  };
  const auto read = [&] {
    float value = 0;
    EXPECT_OK(memory->visit({&buffer, 1}, Access::kRead, [&](const Buffer& piece) -> Status {
      value = *static_cast<const float*>(piece.data);
      return {};
    }));
    return value;
  };
  give(1);
  EXPECT_OK(memory->follow());
  give(2);
  EXPECT_EQ(read(), 1);
  EXPECT_OK(memory->follow());
  EXPECT_EQ(read(), 2);
}

}  // namespace
}  // namespace ffdl::elastic
