#include "ffdl/data/sample_batch.h"

#include <gtest/gtest.h>

#include <cstring>

#include "data/counted_memory.h"

namespace ffdl {
namespace {

TEST(SampleBatch, MemoryStaysUntilClear) {
  SampleBatch batch;
  std::vector<std::span<std::byte>> given;
  for (size_t size : {1, 100, 17, 4000, 0, 33}) {
    given.push_back(batch.allocate(size));
    EXPECT_EQ(given.back().size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(given.back().data()) % 16, 0U);
    std::memset(given.back().data(), static_cast<int>(given.size()), size);
    batch.add(given.back());
  }
  for (size_t i = 0; i < given.size(); ++i) {
    for (const std::byte b : batch[i]) EXPECT_EQ(b, static_cast<std::byte>(i + 1));
  }
}

TEST(SampleBatch, UsesItsMemoryAgain) {
  SampleBatch batch;
  for (int round = 0; round < 3; ++round) {
    batch.clear();
    batch.allocate(1000);
    batch.allocate(3000);
  }
  batch.clear();
  const std::byte* first = batch.allocate(1000).data();
  EXPECT_EQ(batch.allocate(3000).data(), first + 1008);
  batch.clear();
  EXPECT_EQ(batch.allocate(4000).data(), first);
}

TEST(SampleBatch, AnEmptySampleIsNotASkippedOne) {
  SampleBatch batch;
  batch.add({});
  batch.skip();
  ASSERT_EQ(batch.size(), 2U);
  EXPECT_FALSE(batch.is_skipped(0));
  EXPECT_TRUE(batch[0].empty());
  EXPECT_TRUE(batch.is_skipped(1));
  EXPECT_EQ(batch.skipped(), 1U);
  EXPECT_EQ(batch.samples().size(), 2U);
  batch.add_stretch(batch.allocate(10));
  EXPECT_EQ(batch.stretches().size(), 1U);
  batch.clear();
  EXPECT_EQ(batch.size(), 0U);
  EXPECT_EQ(batch.skipped(), 0U);
  EXPECT_TRUE(batch.stretches().empty());
}

TEST(SampleBatch, ManyAreAddedAsEachIs) {
  SampleBatch batch;
  const std::span<const std::byte> bytes = batch.allocate(10);
  batch.add(bytes.first(1));
  batch.add_each(
      3, [&](size_t i) { return i == 1 ? std::span<const std::byte>() : bytes.subspan(i, 2); });
  batch.add_each(0, [&](size_t) { return bytes; });
  ASSERT_EQ(batch.size(), 4U);
  EXPECT_EQ(batch[1].data(), bytes.data());
  EXPECT_FALSE(batch.is_skipped(2)) << "it is empty";
  EXPECT_TRUE(batch[2].empty());
  EXPECT_EQ(batch[3].data(), bytes.data() + 2);
  EXPECT_EQ(batch[3].size(), 2U);
}

TEST(SampleBatch, TakesItsMemoryWhereItIsTold) {
  testing::CountedMemory memory(5000);
  {
    SampleBatch batch(&memory);
    std::memset(batch.allocate(1000).data(), 1, 1000);
    std::memset(batch.allocate(3000).data(), 2, 3000);
    EXPECT_EQ(memory.given, 4016U);
    std::memset(batch.allocate(2000).data(), 3, 2000);  // on the heap, for lack of room
    EXPECT_EQ(memory.given, 4016U);
    batch.clear();  // one allocation for all three, on the heap
    EXPECT_EQ(memory.given, 0U);
    EXPECT_EQ(batch.allocate(0).size(), 0U);
    SampleBatch other(&memory);
    const std::byte* const first = other.allocate(100).data();
    batch = std::move(other);
    EXPECT_EQ(memory.given, 112U);
    batch.clear();
    EXPECT_EQ(batch.allocate(100).data(), first);
  }
  EXPECT_EQ(memory.given, 0U);
}

TEST(SampleBatch, WhatIsPlacedNowhereIsAllocated) {
  SampleBatch batch;
  EXPECT_EQ(batch.allocate(3).size(), 3U);
  const std::span<std::byte> placed = batch.place(10);
  EXPECT_EQ(placed.size(), 10U);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(placed.data()) % 16, 0U);
}

TEST(SampleBatch, WhatWasReadInAnotherOrderIsArranged) {
  SampleBatch batch;
  const std::span<const std::byte> bytes = batch.allocate(6);
  batch.add(bytes.first(1));
  const auto outer = batch.begin_arranging();
  const auto inner = batch.begin_arranging();
  for (size_t i = 1; i < 4; ++i) batch.add(bytes.subspan(i, 1));
  batch.arrange(inner, std::vector<size_t>{2, 0, 1});
  batch.skip();
  batch.arrange(outer, std::vector<size_t>{3, 0, 1, 2});
  ASSERT_EQ(batch.size(), 5U);
  EXPECT_EQ(batch[0].data(), bytes.data());
  EXPECT_TRUE(batch.is_skipped(1));
  EXPECT_EQ(batch[2].data(), bytes.data() + 3);
  EXPECT_EQ(batch[3].data(), bytes.data() + 1);
  EXPECT_EQ(batch[4].data(), bytes.data() + 2);
}

}  // namespace
}  // namespace ffdl
