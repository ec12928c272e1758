#include <gtest/gtest.h>

#include <cstring>

#include "ffdl/data_source.h"

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

}  // namespace
}  // namespace ffdl
