#include "comm/shm/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/limits.h"
#include "support/ranks.h"
#include "support/segment_name.h"
#include "support/status_matchers.h"

namespace ffdl::comm {
namespace {

ShmConfig config_for_ranks(int ranks) {
  return {.generation = 9,
          .job = job_hash(testing::world_of(ranks)),
          .members = world_hash(testing::world_of(ranks)),
          .slot_bytes = 16384,
          .ranks = static_cast<uint32_t>(ranks),
          .reserved = 0};
}

Result<shm::Segment> segment_with(const ShmConfig& config, uint64_t bytes) {
  FFDL_ASSIGN_OR_RETURN(shm::Segment segment,
                        shm::Segment::create({.kind = shm::SegmentKind::kCommunicator,
                                              .layout_version = kLayoutVersion,
                                              .bytes = bytes}));
  std::memcpy(segment.data() + kConfigAt, &config, sizeof config);
  return segment;
}

TEST(ShmLayout, AllPlacesAreApartAlignedAndInside) {
  for (const int ranks : {1, 2, 5, 256}) {
    const ShmConfig config = config_for_ranks(ranks);
    // used for address arithmetic only
    auto* const base = reinterpret_cast<std::byte*>(uintptr_t{1} << 30);
    const ShmView view(base, config);
    std::set<std::byte*> slots;
    std::set<std::byte*> parts;
    for (int rank = 0; rank < ranks; ++rank) {
      auto* const words = reinterpret_cast<std::byte*>(&view.words(rank));
      EXPECT_GE(words, reinterpret_cast<std::byte*>(&view.bell()) + 64);
      auto* const box = reinterpret_cast<std::byte*>(&view.mailbox(rank));
      EXPECT_GE(box, reinterpret_cast<std::byte*>(&view.words(ranks)));
      EXPECT_EQ(view.mailbox_part(rank, 1), view.mailbox_part(rank, 1 + base::kMailboxParts));
      for (uint64_t part = 0; part < base::kMailboxParts; ++part) {
        EXPECT_LE(box + sizeof(Mailbox), view.mailbox_part(rank, part));
        parts.insert(view.mailbox_part(rank, part));
      }
      for (const uint64_t step : {0U, 1U}) {
        EXPECT_EQ(view.input(rank, step), view.input(rank, step + 2));
        slots.insert(view.input(rank, step));
        slots.insert(view.result(rank, step));
      }
      EXPECT_LE(words + sizeof(RankWords), *parts.begin());
    }
    ASSERT_EQ(parts.size(), static_cast<size_t>(ranks) * base::kMailboxParts);
    EXPECT_EQ(*parts.rbegin() + base::kMailboxPartBytes, *slots.begin());
    ASSERT_EQ(slots.size(), static_cast<size_t>(ranks) * 4);
    std::byte* free = *slots.begin();
    for (std::byte* slot : slots) {
      EXPECT_EQ(slot, free);
      EXPECT_EQ((slot - base) % 4096, 0);
      free = slot + config.slot_bytes;
    }
    EXPECT_EQ(static_cast<uint64_t>(free - base), segment_bytes(config));
  }
}

TEST(ShmLayout, OnlyTheSegmentOfTheWorldIsTaken) {
  const ShmConfig config = config_for_ranks(2);
  const uint64_t bytes = segment_bytes(config);
  ASSERT_OK_AND_ASSIGN(const shm::Segment right, segment_with(config, bytes));
  ASSERT_OK_AND_ASSIGN(const ShmConfig read, read_config(right, testing::world_of(2)));
  EXPECT_EQ(read.slot_bytes, config.slot_bytes);
  EXPECT_FAILS(read_config(right, testing::world_of(3)), StatusCode::kCorrupt, "with 3 members");
  World stranger = testing::world_of(2);
  stranger.job = "b";
  EXPECT_FAILS(read_config(right, stranger), StatusCode::kCorrupt,
               "belongs to another job than generation 9 of job 'b'");
  World next = testing::world_of(2);
  next.generation = 10;
  EXPECT_FAILS(read_config(right, next), StatusCode::kCorrupt, "generation 10");
  ASSERT_OK_AND_ASSIGN(const shm::Segment small, segment_with(config, bytes - 4096));
  EXPECT_FAILS(read_config(small, testing::world_of(2)), StatusCode::kCorrupt,
               "does not belong to");
  ASSERT_OK_AND_ASSIGN(const shm::Segment tiny, segment_with(config, 128));
  EXPECT_FAILS(read_config(tiny, testing::world_of(2)), StatusCode::kCorrupt, "does not belong to");
  ShmConfig zero = config;
  zero.slot_bytes = 0;
  ASSERT_OK_AND_ASSIGN(const shm::Segment none, segment_with(zero, segment_bytes(zero)));
  EXPECT_FAILS(read_config(none, testing::world_of(2)), StatusCode::kCorrupt, "does not belong to");
}

}  // namespace
}  // namespace ffdl::comm
