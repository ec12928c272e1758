#include "data/ring/batch_ring_layout.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <random>
#include <thread>

#include "data/batch_text.h"
#include "support/status_matchers.h"
#include "support/times.h"

namespace ffdl::data {
namespace {

class BatchRingLayout : public ::testing::Test {
 protected:
  void make(uint32_t slots, uint64_t slot_bytes, uint32_t consumers_max) {
    const auto config = make_ring_config(format_, slots, slot_bytes, consumers_max);
    ASSERT_OK(config);
    auto segment = create_batch_ring(*config);
    ASSERT_OK(segment);
    segment_ = std::move(*segment);
    const auto view = view_of(segment_);
    ASSERT_OK(view);
    view_.emplace(*view);
  }

  const SampleFormat format_ = {"<f4", {3, 5}, 60, true};
  shm::Segment segment_;
  std::optional<BatchRingView> view_;
  std::vector<std::span<const std::byte>> places_;
};

TEST_F(BatchRingLayout, TellsTheFormat) {
  make(2, 1000, 3);
  const SampleFormat told = format_of(view_->config());
  EXPECT_EQ(told.dtype, "<f4");
  EXPECT_EQ(told.shape, (std::vector<uint64_t>{3, 5}));
  EXPECT_EQ(told.bytes, 60);
  EXPECT_TRUE(told.is_fixed);
  EXPECT_FAILS(make_ring_config({.dtype = std::string(32, 'x')}, 1, 1, 1),
               StatusCode::kInvalidArgument, "31 characters");
  EXPECT_FAILS(make_ring_config({.shape = std::vector<uint64_t>(17, 1)}, 1, 1, 1),
               StatusCode::kInvalidArgument, "17 dimensions");
}

TEST_F(BatchRingLayout, GivesWhatWasPutUpToTheLastByteOfASlot) {
  for (const size_t samples : {0, 1, 5, 40}) {
    make(3, bytes_in_slot(ffdl::testing::TextBatch(0, samples).batch), 1);
    EXPECT_EQ(view_->enter(0), 0);
    for (uint64_t number = 0; number < 10; ++number) {
      ASSERT_EQ(view_->in_the_way(number), 1) << "nobody is";
      view_->put(ffdl::testing::TextBatch(number, samples).batch);
      ASSERT_OK_AND_ASSIGN(const DataBatch batch, view_->read(number, places_));
      EXPECT_TRUE(ffdl::testing::is_text_batch(batch, number, samples)) << number;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(batch.bytes.data()) % 64, 0);
      view_->release(0, number + 1);
    }
  }
}

TEST_F(BatchRingLayout, TheSlowestConsumerIsInTheWay) {
  make(2, 1000, 3);
  EXPECT_EQ(view_->in_the_way(1000), 3) << "nobody is there";
  view_->enter(0);
  view_->enter(2);
  EXPECT_EQ(view_->consumers(), 2);
  view_->put(ffdl::testing::TextBatch(0).batch);
  view_->put(ffdl::testing::TextBatch(1).batch);
  EXPECT_EQ(view_->in_the_way(2), 0);
  view_->release(0, 2);
  EXPECT_EQ(view_->in_the_way(2), 2);
  view_->release(2, 1);
  EXPECT_EQ(view_->in_the_way(2), 3);
  EXPECT_EQ(view_->in_the_way(3), 2);
  // The consumer has not reported yet where it begins.
  view_->consumer(1).state = ConsumerState::kComing;
  EXPECT_EQ(view_->in_the_way(2), 1);
  EXPECT_EQ(view_->enter(1), 2) << "it is given what is put from here on";
  EXPECT_EQ(view_->in_the_way(2), 3);
}

TEST_F(BatchRingLayout, WhoIsGoneIsInNobodysWayAndWhatItHadIsCounted) {
  make(4, 1000, 2);
  view_->enter(0);
  view_->enter(1);
  for (uint64_t number = 0; number < 3; ++number)
    view_->put(ffdl::testing::TextBatch(number).batch);
  view_->release(0, 3);
  view_->release(1, 1);
  view_->leave(0);
  EXPECT_EQ(view_->reader().abandoned, 0);
  EXPECT_EQ(view_->enter(1), 3) << "in the place of one that died";
  EXPECT_EQ(view_->reader().abandoned, 2);
  EXPECT_EQ(view_->consumers(), 1);
  view_->consumer(0).state = ConsumerState::kComing;
  view_->leave(0);
  EXPECT_EQ(view_->reader().abandoned, 2) << "it had begun nowhere yet";
}

TEST_F(BatchRingLayout, BytesThatSomebodyWroteOverAreNeverFollowedOutOfTheSlot) {
  make(1, 1000, 1);
  // 1000 rounded up to whole cache lines
  std::byte* const slot = segment_.data() + segment_.bytes() - 1024;
  std::mt19937_64 random(17);
  int corrupt = 0;
  for (int i = 0; i < 20'000; ++i) {
    view_->reader().batches = 0;
    view_->put(ffdl::testing::TextBatch(0, 7).batch);
    uint64_t word = random();
    if (i % 3 > 0) word %= i % 3 == 1 ? 2000 : 8;  // often small, so that it may be a valid number
    std::memcpy(slot + random() % 20 * 8, &word, sizeof word);
    const auto batch = view_->read(0, places_);
    if (!batch.ok()) {
      EXPECT_EQ(batch.status().code(), StatusCode::kCorrupt);
      ++corrupt;
      continue;
    }
    uint64_t sum = 0;
    for (const auto& sample : batch->samples) {
      ASSERT_TRUE(sample.empty() ||
                  (sample.data() >= slot && sample.data() + sample.size() <= slot + 1000));
      for (const std::byte one : sample) sum += static_cast<uint64_t>(one);
    }
    EXPECT_LE(sum, 1000 * 255);
  }
  EXPECT_GT(corrupt, 1000);
}

TEST_F(BatchRingLayout, ASegmentOfAnotherSizeThanItSaysIsNone) {
  make(2, 1000, 3);
  auto* const config = reinterpret_cast<BatchRingConfig*>(segment_.data() + 64);
  ++config->slots;
  EXPECT_FAILS(view_of(segment_), StatusCode::kCorrupt, "3 slots of 1000");
  config->slots = 0;
  EXPECT_FAILS(view_of(segment_), StatusCode::kCorrupt, "0 slots");
}

// Uses one mapping, so that ThreadSanitizer sees the accesses that processes make through their
// own.
TEST_F(BatchRingLayout, ConsumersThatComeAndGoAreGivenEachBatchWholeAndInOrder) {
  constexpr uint64_t kBatches = 3000;
  make(3, 1000, 3);
  std::atomic<bool> over = false;
  std::atomic<uint64_t> given = 0;
  const auto consume = [&](uint32_t i) {
    std::minstd_rand random(i + 1);
    std::vector<std::span<const std::byte>> places;
    while (!over) {
      uint64_t next = view_->enter(i);
      for (uint64_t stays = i == 0 ? kBatches : random() % 20; stays > 0; --stays) {
        const auto is_there = [&] { return over || view_->reader().batches.load() > next; };
        ASSERT_TRUE(view_->reader().filled.wait_until(is_there, ffdl::testing::soon()));
        if (view_->reader().batches.load() <= next) break;
        const auto batch = view_->read(next, places);
        ASSERT_OK(batch);
        ASSERT_TRUE(ffdl::testing::is_text_batch(*batch, next)) << next;
        view_->release(i, ++next);
        ++given;
      }
      view_->leave(i);
    }
  };
  std::vector<std::thread> consumers;
  for (uint32_t i = 0; i < 3; ++i) consumers.emplace_back(consume, i);
  const auto first_is_here = [&] { return view_->consumer(0).state == ConsumerState::kHere; };
  ASSERT_TRUE(view_->reader().released.wait_until(first_is_here, ffdl::testing::soon()));
  for (uint64_t number = 0; number < kBatches; ++number) {
    const auto has_room = [&] { return view_->in_the_way(number) == 3; };
    ASSERT_TRUE(view_->reader().released.wait_until(has_room, ffdl::testing::soon()));
    view_->put(ffdl::testing::TextBatch(number).batch);
  }
  const auto all_used = [&] { return view_->in_the_way(kBatches + 2) == 3; };
  ASSERT_TRUE(view_->reader().released.wait_until(all_used, ffdl::testing::soon()));
  over = true;
  view_->end(RingState::kFinished);
  for (std::thread& consumer : consumers) consumer.join();
  EXPECT_GE(given, kBatches);
}

}  // namespace
}  // namespace ffdl::data
