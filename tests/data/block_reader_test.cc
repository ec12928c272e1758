#include "data/block_reader.h"

#include <gtest/gtest.h>

#include <thread>

#include "data/numbered_source.h"
#include "ffdl/partition_ledger.h"
#include "support/status_matchers.h"

namespace ffdl::data {
namespace {

using ::ffdl::testing::number_of;
using ::ffdl::testing::NumberedSource;
using Plan = std::vector<PlannedBlock>;

class BlockReaderTest : public ::testing::Test {
 protected:
  BlockReaderTest()
      : source_(100),
        ledger_(PartitionLedger::create(
                    {.samples = 100, .partition_samples = 50, .shuffle = Shuffle::kNone})
                    .value()) {}

  NumberedSource source_;
  std::unique_ptr<PartitionLedger> ledger_;
};

TEST_F(BlockReaderTest, ReadsItselfWithoutThreads) {
  BlockReader reader(source_, *ledger_, 0, false);
  reader.want(Plan{{{1, 0, 10}, -1}, {{0, 40, 50}, -1}});
  EXPECT_EQ(source_.reads, 0);
  const auto block = reader.get(0, 45);
  ASSERT_OK(block->status);
  EXPECT_EQ(block->indices.size(), 10U);
  EXPECT_EQ(number_of(block->samples[5]), 45U);
  EXPECT_EQ(reader.counts().read, 1U);
  EXPECT_EQ(reader.counts().waited, 1U);
}

TEST_F(BlockReaderTest, ThreadsReadAheadInOrder) {
  source_.close();
  BlockReader reader(source_, *ledger_, 1, false);
  reader.want(Plan{{{0, 0, 10}, -1}, {{1, 0, 10}, -1}});
  source_.open();
  EXPECT_EQ(number_of(reader.get(1, 3)->samples[3]), 53U);
  EXPECT_EQ(number_of(reader.get(0, 3)->samples[3]), 3U);
  EXPECT_EQ(source_.reads, 2);
}

// Its thread is in the source when the block is dropped, and wanted again under another name.
TEST_F(BlockReaderTest, ABlockMayBeDroppedWhileItIsRead) {
  BlockReader reader(source_, *ledger_, 2, false);
  for (int round = 0; round < 50; ++round) {
    source_.close();
    reader.want(Plan{{{0, 0, 10}, -1}, {{0, 10, 20}, -1}});
    reader.want(Plan{{{1, 0, 20}, -1}});
    source_.open();
    const auto block = reader.get(1, 19);
    ASSERT_OK(block->status);
    for (uint64_t i = 0; i < 20; ++i) ASSERT_EQ(number_of(block->samples[i]), 50 + i);
    reader.want({});
  }
}

TEST_F(BlockReaderTest, ABlockThatIsUsedStaysWhenItIsDropped) {
  BlockReader reader(source_, *ledger_, 0, false);
  reader.want(Plan{{{0, 0, 10}, -1}});
  const auto block = reader.get(0, 0);
  for (uint64_t begin = 0; begin < 40; begin += 10) {
    reader.want(Plan{{{1, begin, begin + 10}, -1}});
    reader.get(1, begin);
  }
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(number_of(block->samples[i]), i);
}

TEST_F(BlockReaderTest, AFailedBlockIsReadAgain) {
  source_.fails_at = 5;
  BlockReader reader(source_, *ledger_, 0, false);
  reader.want(Plan{{{0, 0, 10}, -1}});
  const auto failed = reader.get(0, 0);
  EXPECT_FAILS(failed->status, StatusCode::kUnavailable, "the disk is away");
  reader.forget(failed);
  EXPECT_TRUE(reader.known().empty());
  source_.fails_at = 1000;
  reader.want(Plan{{{0, 0, 10}, -1}});
  EXPECT_OK(reader.get(0, 0)->status);
}

TEST_F(BlockReaderTest, CountsWhatNobodyNeeded) {
  BlockReader reader(source_, *ledger_, 1, false);
  reader.want(Plan{{{0, 0, 10}, -1}, {{0, 10, 20}, -1}});
  reader.get(0, 0);
  while (reader.counts().read < 2) std::this_thread::yield();
  reader.want(Plan{{{0, 10, 20}, 1}});
  EXPECT_EQ(reader.counts().not_needed, 0U);
  reader.want({});
  EXPECT_EQ(reader.counts().not_needed, 1U);
}

TEST(PutTogether, CopiesOnlyWhatIsApart) {
  const std::byte all[6] = {std::byte{0}, std::byte{1}, std::byte{2},
                            std::byte{3}, std::byte{4}, std::byte{5}};
  const std::span<const std::byte> bytes(all);
  SampleBatch memory;
  std::vector<std::span<const std::byte>> samples = {bytes.subspan(1, 2), {}, bytes.subspan(3, 1)};
  EXPECT_EQ(put_together(samples, memory).data(), all + 1);
  EXPECT_EQ(samples[2].data(), all + 3);

  samples = {bytes.subspan(4, 2), {}, bytes.subspan(0, 3)};
  const auto together = put_together(samples, memory);
  ASSERT_EQ(together.size(), 5U);
  const int expected[] = {4, 5, 0, 1, 2};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(together[i], static_cast<std::byte>(expected[i]));
  EXPECT_EQ(samples[0].data(), together.data());
  EXPECT_EQ(samples[1].data(), nullptr);
  EXPECT_EQ(samples[2].data(), together.data() + 2);

  samples.clear();
  EXPECT_TRUE(put_together(samples, memory).empty());
}

}  // namespace
}  // namespace ffdl::data
