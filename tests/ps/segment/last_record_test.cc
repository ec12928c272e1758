#include "ps/segment/last_record.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "ps/test_region.h"
#include "support/status_matchers.h"

namespace ffdl::ps {
namespace {

std::optional<LastRecord> last_of(const TestRegion& region, int l, uint64_t checked = 0,
                                  const std::function<void()>& meanwhile = nullptr) {
  auto record = read_last_record(*region, l, checked, meanwhile);
  EXPECT_OK(record);
  return record.ok() ? *std::move(record) : std::nullopt;
}

TEST(LastRecord, IsThatOfTheNewestPublication) {
  TestRegion region(TestRegion::small_config(1, 1));
  EXPECT_FALSE(last_of(region, 0));
  region.publish(
      0, {{.partition = 0, .begin = 0, .end = 10}, {.partition = 1, .begin = 0, .end = 3}}, 1);
  const auto record = last_of(region, 0);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->sequence, 1U);
  const std::vector<SampleRange> expected = {{0, 0, 10}, {1, 0, 3}};
  EXPECT_EQ(record->ranges, expected);
  EXPECT_FALSE(last_of(region, 1));
}

std::vector<SampleRange> record_of(uint64_t sequence) {
  return std::vector<SampleRange>(4, {static_cast<uint32_t>(sequence), sequence, 2 * sequence});
}

void publish_next(const Region& region) {
  const uint64_t sequence = region.learner(0).pub + 1;
  const std::vector<TouchedRange> touched = {{sequence, sequence + 1},
                                             {sequence + 2, sequence + 9}};
  Meta meta = {};
  meta.sequence = sequence;
  write_record(region, 0, meta, record_of(sequence), touched);
  region.learner(0).pub.store(sequence);
}

TEST(LastRecord, IsNoneThatWasReplacedWhileItWasRead) {
  TestRegion region(TestRegion::small_config(1, 1));
  publish_next(*region);
  EXPECT_EQ(last_of(region, 0)->ranges, record_of(1));
  EXPECT_FALSE(last_of(region, 0, 0, [&] { publish_next(*region); }));
  EXPECT_EQ(last_of(region, 0)->ranges, record_of(2));
}

// A late reader never mixes two records.
TEST(LastRecord, IsWholeWhileItsOwnerGoesOn) {
  TestRegion region(TestRegion::small_config(1, 1));
  std::atomic<bool> is_over = false;
  std::thread owner([&] {
    while (!is_over) publish_next(*region);
  });
  for (int i = 0; i < 10'000; ++i) {
    const auto record = last_of(region, 0);
    if (!record) continue;
    EXPECT_EQ(record->ranges, record_of(record->sequence)) << record->sequence;
  }
  is_over = true;
  owner.join();
}

// Each word of a record, wherever something else has written to it.
TEST(LastRecord, ThatIsDamagedIsCorrupt) {
  const auto meta = [](const Region& region) -> Meta& { return region.meta(0, 1); };
  const std::vector<std::function<void(const Region&)>> damages = {
      [&](const Region& region) { meta(region).sequence = 3; },
      [&](const Region& region) { meta(region).sequence = 0; },
      [&](const Region& region) { ++meta(region).owner; },
      [&](const Region& region) { ++region.learner(0).owner; },
      [&](const Region& region) { ++meta(region).mini_batches; },
      [&](const Region& region) { ++meta(region).samples; },
      [&](const Region& region) { --meta(region).ranges; },
      [&](const Region& region) { meta(region).ranges = 1'000'000; },
      [&](const Region& region) { meta(region).touched = 1'000'000; },
      [&](const Region& region) { meta(region).form = GradientForm::kDense; },
      [&](const Region& region) { meta(region).checksum ^= 1; },
      [&](const Region& region) { ++region.ranges(0, 1)[1].end; },
      [&](const Region& region) { ++region.touched(0, 1)[1].end; }};
  for (const auto& damage : damages) {
    TestRegion region(TestRegion::small_config(1, 1));
    region.publish(0, {{.partition = 0, .begin = 0, .end = 10}, {.partition = 1, .end = 3}}, 1,
                   std::vector<TouchedRange>{{0, 4}, {8, 12}});
    EXPECT_TRUE(last_of(region, 0));
    damage(*region);
    EXPECT_FAILS(read_last_record(*region, 0), StatusCode::kCorrupt,
                 "the record of gradient 1 fails its checksum");
  }
}

TEST(LastRecord, ThatWasWholeIsNotCheckedAgain) {
  TestRegion region(TestRegion::small_config(1, 1));
  region.publish(0, {{.partition = 0, .begin = 0, .end = 10}}, 1,
                 std::vector<TouchedRange>{{0, 4}});
  region->touched(0, 1)[0].end = 5;
  EXPECT_FAILS(read_last_record(*region, 0), StatusCode::kCorrupt, "checksum");
  EXPECT_TRUE(last_of(region, 0, 1));
}

// A slot that carries the version of a cut, in a new segment.
TEST(LastRecord, IsNoneOfACut) {
  TestRegion region(TestRegion::small_config(1, 1));
  region->learner(0).pub = 7;
  region->folded(0, 0) = 7;
  EXPECT_FALSE(last_of(region, 0));
}

}  // namespace
}  // namespace ffdl::ps
