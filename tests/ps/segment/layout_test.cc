#include "ps/segment/layout.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "ps/test_region.h"
#include "support/status_matchers.h"

namespace ffdl::ps {
namespace {

TEST(Layout, PlacesDoNotOverlapAndAreAligned) {
  for (const uint32_t shards : {1U, 3U}) {
    for (const uint64_t parameters : {1UL, 1024UL, 5000UL}) {
      Config config = TestRegion::small_config(shards, 2);
      config.parameters = parameters;
      const Offsets at(config);
      const std::vector<uint64_t> places = {sizeof(shm::SegmentHeader) + sizeof(Config),
                                            at.server,
                                            at.learners,
                                            at.shards,
                                            at.folded,
                                            at.round,
                                            at.round_sequences,
                                            at.ledger,
                                            at.ledger_shadow,
                                            at.meta,
                                            at.ranges,
                                            at.shadow,
                                            at.weights,
                                            at.state,
                                            at.gradients,
                                            at.total};
      for (size_t i = 1; i < places.size(); ++i) {
        EXPECT_GE(places[i], places[i - 1]) << i;
        EXPECT_EQ(places[i] % 64, 0U) << i;
      }
      EXPECT_EQ(at.padded % kBlockFloats, 0U);
      EXPECT_GE(at.padded, parameters);
      EXPECT_GE(at.total - at.gradients, 2 * config.learners_max * at.padded * sizeof(float));
    }
  }
}

TEST(Layout, ShardsShareTheBlocksWithoutGapOrOverlap) {
  Config config = TestRegion::small_config(3, 0);
  config.parameters = 100 * kBlockFloats;
  const TestRegion region(config);
  EXPECT_EQ(region->shard_begin(0), 0U);
  EXPECT_EQ(region->shard_end(2), 100U);
  for (int k = 0; k < 2; ++k) EXPECT_EQ(region->shard_end(k), region->shard_begin(k + 1));
}

TEST(Layout, VersionIsThatOfTheSlowestShard) {
  const TestRegion region(TestRegion::small_config(2, 0));
  region->folded(0, 0) = 5;
  region->folded(0, 2) = 2;
  region->folded(1, 0) = 4;
  EXPECT_EQ(region->version(0), 7U);
  EXPECT_EQ(region->version(), 4U);
  EXPECT_EQ(region->folded_everywhere(0), 4U);
  EXPECT_EQ(region->folded_everywhere(2), 0U);
}

// Returns a whole segment with a valid header and this configuration.
shm::Segment segment_with(const Config& config, uint64_t bytes) {
  auto segment = shm::Segment::create({.kind = shm::SegmentKind::kParameterServer,
                                       .layout_version = kLayoutVersion,
                                       .bytes = bytes});
  EXPECT_OK(segment);
  Config& stored = stored_config(segment->data());
  std::memcpy(&stored, &config, sizeof config);
  stored.checksum = config_checksum(stored);
  return std::move(segment).value();
}

TEST(Layout, ReadsBackWhatWasStored) {
  const Config config = TestRegion::small_config(2, 1);
  const shm::Segment segment = segment_with(config, Offsets(config).total);
  ASSERT_OK_AND_ASSIGN(const Region region, read_region(segment));
  EXPECT_EQ(region.config().parameters, config.parameters);
  EXPECT_EQ(region.shards(), 2);
}

TEST(Layout, NoChangedByteOfTheConfigurationGoesUnnoticed) {
  const Config config = TestRegion::small_config(2, 1);
  const shm::Segment segment = segment_with(config, Offsets(config).total);
  for (size_t byte = 0; byte < sizeof(Config); ++byte) {
    std::byte& changed = segment.data()[sizeof(shm::SegmentHeader) + byte];
    changed ^= std::byte{0x10};
    EXPECT_FAILS(read_region(segment), StatusCode::kCorrupt, "configuration");
    changed ^= std::byte{0x10};
  }
  EXPECT_OK(read_region(segment));
}

TEST(Layout, WrongSizesAreCorrupt) {
  const Config config = TestRegion::small_config(2, 1);
  EXPECT_FAILS(read_region(segment_with(config, Offsets(config).total + 4096)),
               StatusCode::kCorrupt, "size");
  auto tiny = shm::Segment::create(
      {.kind = shm::SegmentKind::kParameterServer, .layout_version = kLayoutVersion, .bytes = 128});
  ASSERT_OK(tiny);
  EXPECT_FAILS(read_region(*tiny), StatusCode::kCorrupt, "too small");
}

// The owners of publications stay known at every kill between two stores of a new owner.
TEST(Layout, OwnersOfPublicationsSurviveEveryKill) {
  for (const uint64_t published : {0U, 1U}) {  // by the owner that is replaced
    for (const int stores : {0, 1, 2, 3}) {    // of the next owner, before it is killed
      TestRegion region(TestRegion::small_config(1, 0));
      LearnerWords& words = region->learner(0);
      change_owner(*region, 0, 11);
      words.pub = 1;
      change_owner(*region, 0, 12);
      words.pub = 1 + published;
      const uint64_t expected = published == 1 ? 12 : 11;
      if (stores > 0) words.owner_before = owner_of(*region, 0, words.pub);
      if (stores > 1) words.first_of_owner = words.pub + 1;
      if (stores > 2) words.owner = 13;
      EXPECT_EQ(owner_of(*region, 0, words.pub), expected) << stores;
      change_owner(*region, 0, 14);
      EXPECT_EQ(owner_of(*region, 0, words.pub), expected) << stores;
      EXPECT_EQ(owner_of(*region, 0, words.pub + 1), 14U) << stores;
    }
  }
}

TEST(Layout, TheNextOwnerComparesWhatWaitsToBeFolded) {
  TestRegion region(TestRegion::small_config(1, 0));
  change_owner(*region, 0, 11);
  EXPECT_OK(check_owner(*region, 0));
  region->meta(0, 1).owner = 12;
  region->learner(0).pub = 1;
  EXPECT_FAILS(check_owner(*region, 0), StatusCode::kCorrupt, "by no owner of the slot");
  region->meta(0, 1).owner = 11;
  EXPECT_OK(check_owner(*region, 0));
}

}  // namespace
}  // namespace ffdl::ps
