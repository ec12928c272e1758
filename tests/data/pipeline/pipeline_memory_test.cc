#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "data/numbered_source.h"
#include "data/pipeline_job.h"
#include "ffdl/data/data_pipeline.h"
#include "ffdl/data/sample_batch.h"
#include "support/host_device.h"
#include "support/status_matchers.h"

// Tests in which memory a pipeline puts its samples.
namespace ffdl {
namespace {

using testing::number_of;
using testing::NumberedSource;
using Job = testing::PipelineJob;

// Samples are copied from blocks if they are read ahead or small. Otherwise they are read directly.
TEST(PipelineMemory, ABatchCanLieInMemoryOfTheCaller) {
  for (const size_t numbers : {1, 512}) {
    for (const int threads : {0, 1}) {
      const NumberedSource source(1000, numbers);
      Job made(source, {.partition_samples = 100, .shuffle = Shuffle::kNone}, {.threads = threads});
      made.use_own_memory();
      made.add();
      made.announce();
      made.step(10);
      made.step(95);  // from two partitions
      const bool is_straight = threads == 0 && numbers > 1;
      const DataPipelineStats stats = made.members()[0]->pipeline->stats();
      EXPECT_EQ(stats.straight, is_straight ? 2U : 0U);
      EXPECT_EQ(stats.blocks == 0, is_straight);
      EXPECT_EQ(made.members()[0]->batch.indices.back(), 104U);
      EXPECT_TRUE(source.reads == 2 || !is_straight);
    }
  }
}

TEST(PipelineMemory, TooLittleMemoryLosesNothing) {
  for (const size_t numbers : {1, 512}) {
    for (const int threads : {0, 1}) {
      const NumberedSource source(1000, numbers);
      Job made(source, {.partition_samples = 100, .shuffle = Shuffle::kNone}, {.threads = threads});
      made.add();
      made.announce();
      auto& [self, ledger, pipeline, batch, memory] = *made.members()[0];
      const size_t sample = numbers * sizeof(uint64_t);
      memory.assign(10 * sample, std::byte{7});
      const auto all_but_one = std::span(memory).first(10 * sample - 1);
      EXPECT_FAILS(pipeline->next_into(all_but_one, batch, 10), StatusCode::kInvalidArgument,
                   "read 10 samples into memory of");
      EXPECT_EQ(memory.back(), std::byte{7});
      ASSERT_OK(pipeline->next_into(all_but_one, batch, 9));  // or fewer samples
      EXPECT_THAT(batch.indices, ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
      ASSERT_OK(pipeline->next(batch, 10));  // or in other memory
      EXPECT_EQ(number_of(batch.samples[9]), 9U);
      EXPECT_EQ(memory.back(), std::byte{7});
      ASSERT_OK(pipeline->next_into(memory, batch, 10));
      EXPECT_EQ(batch.ranges, (std::vector<SampleRange>{{0, 0, 10}}));
      EXPECT_EQ(number_of(std::span<const std::byte>(memory).last(sizeof(uint64_t))), 9U);
      EXPECT_EQ(ledger->taken(), 10U);
    }
  }
}

TEST(PipelineMemory, WhatFailsOnItsWayIntoMemoryOfTheCallerIsReadAgain) {
  for (const size_t numbers : {1, 512}) {
    for (const int threads : {0, 1}) {
      NumberedSource source(1000, numbers);
      Job made(source, {.partition_samples = 100, .shuffle = Shuffle::kNone}, {.threads = threads});
      made.use_own_memory();
      made.add();
      made.announce();
      auto& [self, ledger, pipeline, batch, memory] = *made.members()[0];
      memory.resize(10 * numbers * sizeof(uint64_t));
      source.fails_at = 7;
      source.skips_at = 13;
      EXPECT_FAILS(pipeline->next_into(memory, batch, 10), StatusCode::kUnavailable,
                   "the disk is away");
      source.fails_at = 5000;
      made.step(10);
      ASSERT_OK(pipeline->next_into(memory, batch, 5));
      EXPECT_EQ(batch.skipped, 1U);
      EXPECT_THAT(batch.indices, ::testing::ElementsAre(10, 11, 12, 14));
      EXPECT_EQ(batch.bytes.size(), 4 * numbers * sizeof(uint64_t));
      EXPECT_EQ(batch.samples[3].data(), memory.data() + 3 * numbers * sizeof(uint64_t));
      EXPECT_EQ(number_of(batch.samples[3]), 14U);
      EXPECT_EQ(ledger->taken(), 5U);
    }
  }
}

// The memory of batches is pinned as long as a pipeline exists.
TEST(PipelineMemory, BatchesCanLieInPinnedMemory) {
  const NumberedSource source(1000);
  testing::HostPins& pins = testing::HostPins::of_this_process();
  for (const bool contiguous : {false, true}) {
    for (const int threads : {0, 2}) {
      testing::HostDevice device;
      PinnedMemory memory(&device);
      {
        Job made(source, {.partition_samples = 100, .epochs = 2, .shuffle = Shuffle::kNone},
                 {.threads = threads, .contiguous = contiguous, .memory = &memory});
        made.add();
        made.announce();
        while (!made.is_done()) {
          made.step(35);
          const DataBatch& batch = made.members()[0]->batch;
          for (const auto& sample : batch.samples) ASSERT_TRUE(pins.holds(sample));
          ASSERT_TRUE(batch.bytes.empty() || pins.holds(batch.bytes));
        }
        EXPECT_GT(memory.pinned_bytes(), 0U);
      }
      EXPECT_EQ(memory.pinned_bytes(), 0U);
      EXPECT_EQ(pins.bytes(), 0U);
      EXPECT_EQ(memory.not_pinned(), "");
    }
  }
}

}  // namespace
}  // namespace ffdl
