#include "data/formats/block_reader.h"

#include <gtest/gtest.h>

#include <thread>

#include "data/counted_memory.h"
#include "data/numbered_source.h"
#include "ffdl/data/sample_ledger.h"
#include "support/status_matchers.h"

namespace ffdl::data {
namespace {

using ::ffdl::testing::CountedMemory;
using ::ffdl::testing::number_of;
using ::ffdl::testing::NumberedSource;
using Plan = std::vector<PlannedBlock>;

class BlockReaderTest : public ::testing::Test {
 protected:
  BlockReaderTest()
      : source_(100),
        ledger_(make_session_ledger(
                    {.samples = 100, .partition_samples = 50, .shuffle = Shuffle::kNone})
                    .value()) {}

  NumberedSource source_;
  std::unique_ptr<SampleLedger> ledger_;
};

TEST_F(BlockReaderTest, ReadsItselfWithoutThreads) {
  BlockReader reader(source_, *ledger_, {.threads = 0});
  reader.want(Plan{{{1, 0, 10}, -1}, {{0, 40, 50}, -1}});
  EXPECT_EQ(source_.reads, 0);
  const auto block = reader.get({0, 45, 46});
  ASSERT_OK(block->status);
  EXPECT_EQ(block->indices.size(), 10U);
  EXPECT_EQ(number_of(block->samples[5]), 45U);
  EXPECT_EQ(reader.counts().read, 1U);
  EXPECT_EQ(reader.counts().waited, 1U);
}

TEST_F(BlockReaderTest, ThreadsReadAheadInOrder) {
  source_.close();
  BlockReader reader(source_, *ledger_, {.threads = 1});
  reader.want(Plan{{{0, 0, 10}, -1}, {{1, 0, 10}, -1}});
  source_.open();
  EXPECT_EQ(number_of(reader.get({1, 3, 4})->samples[3]), 53U);
  EXPECT_EQ(number_of(reader.get({0, 3, 4})->samples[3]), 3U);
  EXPECT_EQ(source_.reads, 2);
}

// A thread reads the block when it is dropped and wanted again under another name.
TEST_F(BlockReaderTest, ABlockMayBeDroppedWhileItIsRead) {
  BlockReader reader(source_, *ledger_, {.threads = 2});
  for (int round = 0; round < 50; ++round) {
    source_.close();
    reader.want(Plan{{{0, 0, 10}, -1}, {{0, 10, 20}, -1}});
    reader.want(Plan{{{1, 0, 20}, -1}});
    source_.open();
    const auto block = reader.get({1, 19, 20});
    ASSERT_OK(block->status);
    for (uint64_t i = 0; i < 20; ++i) ASSERT_EQ(number_of(block->samples[i]), 50 + i);
    reader.want({});
  }
}

TEST_F(BlockReaderTest, ABlockThatIsUsedStaysWhenItIsDropped) {
  BlockReader reader(source_, *ledger_, {.threads = 0});
  reader.want(Plan{{{0, 0, 10}, -1}});
  const auto block = reader.get({0, 0, 1});
  for (uint64_t begin = 0; begin < 40; begin += 10) {
    reader.want(Plan{{{1, begin, begin + 10}, -1}});
    reader.get({1, begin, begin + 1});
  }
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(number_of(block->samples[i]), i);
}

TEST_F(BlockReaderTest, AFailedBlockIsReadAgain) {
  source_.fails_at = 5;
  BlockReader reader(source_, *ledger_, {.threads = 0});
  reader.want(Plan{{{0, 0, 10}, -1}});
  const auto failed = reader.get({0, 0, 1});
  EXPECT_FAILS(failed->status, StatusCode::kUnavailable, "the disk is away");
  reader.forget(failed);
  EXPECT_TRUE(reader.known().empty());
  source_.fails_at = 1000;
  reader.want(Plan{{{0, 0, 10}, -1}});
  EXPECT_OK(reader.get({0, 0, 1})->status);
}

TEST_F(BlockReaderTest, WhatNoBlockHasIsReadByItself) {
  BlockReader reader(source_, *ledger_, {.threads = 0});
  reader.want(Plan{{{0, 20, 30}, -1}, {{1, 10, 20}, -1}});
  const auto before = reader.get({0, 5, 25});
  EXPECT_EQ(before->range, (SampleRange{0, 5, 20}));
  EXPECT_EQ(number_of(before->samples[14]), 19U);
  EXPECT_EQ(reader.get({0, 20, 25})->range, (SampleRange{0, 20, 30}));
  EXPECT_EQ(reader.get({0, 30, 35})->range, (SampleRange{0, 30, 35}));
  EXPECT_EQ(reader.get({0, 7, 8}), before);
  EXPECT_EQ(reader.counts().read, 3U);
}

TEST_F(BlockReaderTest, CountsWhatNobodyNeeded) {
  BlockReader reader(source_, *ledger_, {.threads = 1});
  reader.want(Plan{{{0, 0, 10}, -1}, {{0, 10, 20}, -1}});
  reader.get({0, 0, 1});
  while (reader.counts().read < 2) std::this_thread::yield();
  reader.want(Plan{{{0, 10, 20}, 1}});
  EXPECT_EQ(reader.counts().not_needed, 0U);
  reader.want({});
  EXPECT_EQ(reader.counts().not_needed, 1U);
}

TEST_F(BlockReaderTest, BlocksLieInMemoryThatIsUsedAgain) {
  CountedMemory memory;
  {
    BlockReader reader(source_, *ledger_, {.threads = 0, .memory = &memory});
    for (uint64_t begin = 0; begin < 50; begin += 10) {
      reader.want(Plan{{{0, begin, begin + 10}, -1}});
      EXPECT_EQ(number_of(reader.get({0, begin, begin + 1})->samples[0]), begin);
    }
    EXPECT_GE(memory.given, 10 * sizeof(uint64_t));
    const int calls = memory.calls;
    for (uint64_t begin = 0; begin < 50; begin += 10) {
      reader.want(Plan{{{1, begin, begin + 10}, -1}});
      EXPECT_EQ(number_of(reader.get({1, begin, begin + 1})->samples[0]), 50 + begin);
    }
    EXPECT_EQ(memory.calls, calls);
  }
  EXPECT_EQ(memory.given, 0U);
}

}  // namespace
}  // namespace ffdl::data
