#include "comm/operation/reachable_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/limits.h"
#include "support/ranks.h"
#include "support/status_matchers.h"

namespace ffdl::comm {
namespace {

constexpr uint64_t kCount = 1000;

class ReachableMemoryTest : public ::testing::Test {
 protected:
  ReachableMemoryTest() : shared_(SharedMemory::allocate(kCount * sizeof(float)).value()) {}

  shm::SegmentPlace place_of(const Operation& operation) const {
    const World world = {.generation = 1, .rank = 0, .members = testing::members_named(2)};
    return memory_.place_of(check_operation(operation, world).value());
  }
  Buffer whole() const { return {shared_->data(), kCount, DType::kFloat32}; }
  Operation in_place(const Buffer& buffer) const {
    return {.kind = Collective::kAllReduce, .out = {&buffer, 1}};
  }

  const std::shared_ptr<SharedMemory> shared_;
  ReachableMemory memory_;
};

TEST_F(ReachableMemoryTest, OnlyAWholeRegisteredMemoryInPlaceHasAPlace) {
  const Buffer buffer = whole();
  EXPECT_EQ(place_of(in_place(buffer)), shm::SegmentPlace{});
  memory_.add(shared_);
  const shm::SegmentPlace place = place_of(in_place(buffer));
  EXPECT_EQ(place.segment, shared_->segment().header().generation);
  EXPECT_EQ(place.pid, getpid());

  const Buffer part = {shared_->data(), kCount - 1, DType::kFloat32};
  EXPECT_EQ(place_of(in_place(part)), shm::SegmentPlace{});
  const Buffer later = {shared_->data() + sizeof(float), kCount - 1, DType::kFloat32};
  EXPECT_EQ(place_of(in_place(later)), shm::SegmentPlace{});
  const Buffer two[] = {part, {shared_->data() + (kCount - 1) * sizeof(float), 1}};
  EXPECT_EQ(place_of({.kind = Collective::kAllReduce, .out = two}), shm::SegmentPlace{});
  std::vector<float> own(kCount);
  const Buffer from = {own.data(), kCount};
  EXPECT_EQ(place_of({.kind = Collective::kAllReduce, .in = {&from, 1}, .out = {&buffer, 1}}),
            shm::SegmentPlace{});
  EXPECT_EQ(place_of({.kind = Collective::kBroadcast, .in = {&buffer, 1}, .out = {&buffer, 1}}),
            shm::SegmentPlace{});
}

TEST_F(ReachableMemoryTest, WhatIsReachedIsTheSameMemoryUntilItIsTakenBack) {
  memory_.add(shared_);
  const shm::SegmentPlace place = place_of(in_place(whole()));
  ASSERT_OK_AND_ASSIGN(std::byte* const reached, memory_.reach(place, kCount * sizeof(float)));
  EXPECT_NE(reached, shared_->data());
  reached[17] = std::byte{5};
  EXPECT_EQ(shared_->data()[17], std::byte{5});
  ASSERT_OK_AND_ASSIGN(std::byte* const again, memory_.reach(place, 1));
  EXPECT_EQ(again, reached);

  ASSERT_OK(memory_.take_back(place));
  reached[18] = std::byte{6};
  EXPECT_EQ(shared_->data()[18], std::byte{0});
  EXPECT_NE(place_of(in_place(whole())), place);
}

// An operation of many ranks must not lose the memory of the first rank while it reaches the last.
TEST_F(ReachableMemoryTest, WhatIsReachedStaysUntilThereIsMadeRoom) {
  std::vector<std::shared_ptr<SharedMemory>> others;
  std::vector<std::byte*> reached;
  for (size_t i = 0; i < base::kReachedMax + 1; ++i) {
    ASSERT_OK_AND_ASSIGN(others.emplace_back(), SharedMemory::allocate(1));
    const shm::SegmentPlace place = shm::place_of(others.back()->segment());
    ASSERT_OK_AND_ASSIGN(reached.emplace_back(), memory_.reach(place, 1));
  }
  for (size_t i = 0; i < others.size(); ++i) {
    *reached[i] = std::byte{9};
    EXPECT_EQ(*others[i]->data(), std::byte{9});
  }
  memory_.make_room();
  memory_.add(shared_);
  EXPECT_OK(memory_.reach(place_of(in_place(whole())), 1));
}

TEST_F(ReachableMemoryTest, APlaceThatIsNoneIsAnError) {
  memory_.add(shared_);
  const shm::SegmentPlace place = place_of(in_place(whole()));
  EXPECT_FAILS(memory_.reach(place, kCount * sizeof(float) + 1).status(),
               StatusCode::kInvalidArgument, "4000 bytes, not 4001");
  shm::SegmentPlace other = place;
  other.segment += 1;
  EXPECT_FAILS(memory_.reach(other, 1).status(), StatusCode::kConflict, "replaced");
  other.fd = 1'000'000;
  EXPECT_FAILS(memory_.reach(other, 1).status(), StatusCode::kUnavailable, "same user");
}

}  // namespace
}  // namespace ffdl::comm
