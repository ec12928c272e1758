#include "elastic/step/step_message.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/small_model.h"

namespace ffdl::elastic {
namespace {

using ffdl::testing::Scribe;

// Writes three bytes: not a multiple of the padding of a record.
class Short final : public StepParticipant {
 public:
  size_t record_bytes() const override { return 3; }
  void write_record(std::span<std::byte> record) override {
    ASSERT_EQ(record.size(), 3U);
    record[0] = record[2] = std::byte{7};
  }
  void applied(uint64_t, const StepRecords& records) override {
    ranks = records.size();
    for (int rank = 0; rank < ranks; ++rank) {
      ASSERT_EQ(records.of(rank).size(), 3U);
      EXPECT_EQ(records.of(rank)[2], std::byte{7});
    }
  }
  void world_changed(const World&) override {}
  void stable(uint64_t) override {}
  std::vector<std::byte> save() const override { return {}; }
  Status restore(std::span<const std::byte>) override { return {}; }
  int ranks = 0;
};

// Delivers the result of an all_gather of `headers`, for members that are all like this one.
void gather(StepMessages& messages, const std::vector<StepHeader>& headers) {
  std::vector<std::byte> all;
  for (const StepHeader& header : headers) {
    const auto one = messages.describe(header);
    all.insert(all.end(), one.begin(), one.end());
  }
  const auto into = messages.receive(static_cast<int>(headers.size()));
  ASSERT_EQ(into.size(), all.size());
  std::memcpy(into.data(), all.data(), all.size());
}

TEST(StepMessages, EachParticipantGetsItsRecordsOfAllRanks) {
  Short first;
  Scribe second(5);
  Short third;
  const std::vector<StepParticipant*> participants = {&first, &second, &third};
  StepMessages messages(participants);
  EXPECT_EQ(messages.bytes(), sizeof(StepHeader) + 8 + 8 + 8);
  gather(messages, {{1, 10, 0}, {1, 20, 0}, {1, 0, 0}});
  messages.apply(1);
  EXPECT_EQ(first.ranks, 3);
  EXPECT_EQ(third.ranks, 3);
  EXPECT_EQ(second.last_applied, 1U);
  EXPECT_EQ(second.sum(), (5U * 31 + 5) * 31 + 5);
}

TEST(StepMessages, SamplesAreThoseOfAll) {
  StepMessages messages({});
  gather(messages, {{4, 10, 0}, {4, 0, 0}, {4, 3, 0}});
  EXPECT_EQ(messages.samples(), 13U);
  EXPECT_EQ(messages.header(2).samples, 3U);
  EXPECT_EQ(messages.header(2).step, 4U);
}

TEST(StepMessages, WhatIsSaidOfCheckpointsIsThatOfAll) {
  StepMessages messages({});
  gather(messages, {{4, 1, 0, {1, 0, 3}}, {4, 1, 0, {0, 2, 0}}});
  const std::vector<CheckpointWord> words = messages.checkpoint_words();
  ASSERT_EQ(words.size(), 2U);
  EXPECT_EQ(words[0].wants, 1U);
  EXPECT_EQ(words[0].published, 3U);
  EXPECT_EQ(words[1].pending, 2U);
}

TEST(StepMessages, TheTrainingIsDoneWhenAllSaySo) {
  StepMessages messages({});
  constexpr auto kNone = StepKind::kNone;
  gather(messages, {{4, 0, 0, {}, kNone}, {4, 0, 0, {}, kNone}});
  EXPECT_TRUE(messages.are_all_done());
  EXPECT_TRUE(messages.is_over());
  gather(messages, {{4, 0, 0, {}, kNone}, {4, 0, 0, {}, StepKind::kNext}});
  EXPECT_FALSE(messages.are_all_done());
  EXPECT_FALSE(messages.is_over());
}

TEST(StepMessages, ItIsOverForNewcomersWhenOneIsDoneAndNoneGoesOn) {
  StepMessages messages({});
  const StepHeader newcomer = {4, 0, 0, {}, StepKind::kNewcomer};
  gather(messages, {{4, 0, 0, {}, StepKind::kNone}, newcomer});
  EXPECT_FALSE(messages.are_all_done());
  EXPECT_TRUE(messages.is_over());
  gather(messages, {newcomer, newcomer});
  EXPECT_FALSE(messages.is_over());
}

TEST(StepMessages, AllMustBeReadyForTheSame) {
  StepMessages messages({});
  gather(messages, {{1, 0, 8}, {1, 0, 8}});
  EXPECT_EQ(messages.agreed_next(), 8U);
  gather(messages, {{1, 0, 8}, {1, 0, 0}});
  EXPECT_EQ(messages.agreed_next(), std::nullopt);
  gather(messages, {{1, 0, 8}, {1, 0, 9}});
  EXPECT_EQ(messages.agreed_next(), std::nullopt);
  gather(messages, {{1, 0, 0}, {1, 0, 0}});
  EXPECT_EQ(messages.agreed_next(), std::nullopt);
}

}  // namespace
}  // namespace ffdl::elastic
