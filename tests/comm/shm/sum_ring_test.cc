#include "comm/shm/sum_ring.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "comm/operation/buffer_pieces.h"
#include "comm/shm/layout.h"
#include "support/ranks.h"
#include "support/status_matchers.h"

namespace ffdl::comm {
namespace {

constexpr uint64_t kRingBytes = 4096;

RingConfig config_for(const World& world) {
  return {.generation = world.generation,
          .job = job_hash(world),
          .members = world_hash(world),
          .ring_bytes = kRingBytes,
          .ranks = static_cast<uint32_t>(world.members.size()),
          .reserved = 0};
}

TEST(SumRing, SharesAreWholeLinesAndTogetherAll) {
  for (const uint64_t bytes : {0U, 1U, 64U, 65U, 1000U, 4096U}) {
    for (const int ranks : {1, 2, 3, 8}) {
      uint64_t at = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Piece share = piece_of(rank, ranks, bytes, 1);
        EXPECT_EQ(share.begin, at) << bytes << " rank " << rank;
        EXPECT_TRUE(share.begin % 64 == 0 || share.begin == bytes);
        at = share.end;
      }
      EXPECT_EQ(at, bytes);
    }
  }
  EXPECT_EQ(bytes_with_header(0), 64U);
  EXPECT_EQ(bytes_with_header(64), 128U);
  EXPECT_EQ(bytes_with_header(65), 192U);
}

TEST(SumRing, AllPlacesAreApartAndInside) {
  for (const int ranks : {1, 3, 256}) {
    const World world = testing::world_of(ranks);
    ASSERT_OK_AND_ASSIGN(const shm::Segment segment, create_ring(config_for(world)));
    const RingView view(segment.data(), config_of(segment));
    std::vector<std::byte> full(kRingBytes, std::byte{255});
    view.write(0, full.data(), full.size());
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(view.words(rank).done.load(), 0U);
      view.words(rank).done.store(UINT64_MAX);
    }
    EXPECT_EQ(view.bell().sleepers.load(), 0U);
    std::vector<std::byte> read(kRingBytes);
    view.read(0, read.data(), read.size());
    EXPECT_EQ(read, full);
    ASSERT_OK(open_ring(place_of(segment), world));  // neither header nor config was changed
  }
}

TEST(SumRing, AByteLiesAtItsPositionWhereverTheRingEnds) {
  const World world = testing::world_of(2);
  ASSERT_OK_AND_ASSIGN(const shm::Segment segment, create_ring(config_for(world)));
  const RingView view(segment.data(), config_of(segment));
  std::vector<std::byte> given(1000);
  for (size_t i = 0; i < given.size(); ++i) given[i] = static_cast<std::byte>(i % 251);
  for (uint64_t position = 0; position < 5 * kRingBytes; position += 960) {
    view.write(position, given.data(), given.size());
    std::vector<std::byte> read(given.size());
    view.read(position, read.data(), read.size());
    ASSERT_EQ(read, given) << position;
    std::byte last{};
    view.read(position + 999 + 7 * kRingBytes, &last, 1);
    ASSERT_EQ(last, given[999]);
  }
}

TEST(SumRing, OnlyTheRingOfTheWorldIsTaken) {
  const World world = testing::world_of(2);
  ASSERT_OK_AND_ASSIGN(const shm::Segment segment, create_ring(config_for(world)));
  const shm::SegmentPlace place = place_of(segment);
  ASSERT_OK_AND_ASSIGN(const shm::Segment opened, open_ring(place, world));
  EXPECT_EQ(config_of(opened).ring_bytes, kRingBytes);
  EXPECT_FAILS(open_ring(place, testing::world_of(3)), StatusCode::kCorrupt, "with 3 members");
  EXPECT_FAILS(open_ring({}, world), StatusCode::kUnavailable, "process 0");
  RingConfig larger = config_for(world);
  larger.ring_bytes *= 2;
  ASSERT_OK_AND_ASSIGN(const shm::Segment lying, create_ring(larger));
  reinterpret_cast<RingConfig*>(lying.data() + sizeof(shm::SegmentHeader))->ring_bytes = kRingBytes;
  EXPECT_FAILS(open_ring(place_of(lying), world), StatusCode::kCorrupt, "does not belong to");
  World stranger = world;
  stranger.job = "b";
  EXPECT_FAILS(open_ring(place, stranger), StatusCode::kCorrupt, "belongs to another job than");
}

}  // namespace
}  // namespace ffdl::comm
