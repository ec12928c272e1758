#include "ps/last_record.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "ps/test_region.h"

namespace ffdl::ps {
namespace {

TEST(LastRecord, IsThatOfTheNewestPublication) {
  TestRegion region(TestRegion::small_config(1, 1));
  EXPECT_FALSE(read_last_record(*region, 0));
  region.publish(
      0, {{.partition = 0, .begin = 0, .end = 10}, {.partition = 1, .begin = 0, .end = 3}}, 1);
  const auto record = read_last_record(*region, 0);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->sequence, 1U);
  const std::vector<SampleRange> expected = {{0, 0, 10}, {1, 0, 3}};
  EXPECT_EQ(record->ranges, expected);
  EXPECT_FALSE(read_last_record(*region, 1));
}

std::vector<SampleRange> record_of(uint64_t sequence) {
  return std::vector<SampleRange>(4, {static_cast<uint32_t>(sequence), sequence, 2 * sequence});
}

void publish_next(const Region& region) {
  const uint64_t sequence = region.learner(0).pub + 1;
  write_ranges(region, 0, sequence, record_of(sequence));
  region.learner(0).pub.store(sequence);
}

TEST(LastRecord, IsNoneThatWasReplacedWhileItWasRead) {
  TestRegion region(TestRegion::small_config(1, 1));
  publish_next(*region);
  EXPECT_EQ(read_last_record(*region, 0)->ranges, record_of(1));
  EXPECT_FALSE(read_last_record(*region, 0, [&] { publish_next(*region); }));
  EXPECT_EQ(read_last_record(*region, 0)->ranges, record_of(2));
}

// A reader that is late does not see half of one record and half of another.
TEST(LastRecord, IsWholeWhileItsOwnerGoesOn) {
  TestRegion region(TestRegion::small_config(1, 1));
  std::atomic<bool> is_over = false;
  std::thread owner([&] {
    while (!is_over) publish_next(*region);
  });
  for (int i = 0; i < 10'000; ++i) {
    const auto record = read_last_record(*region, 0);
    if (!record) continue;
    EXPECT_EQ(record->ranges, record_of(record->sequence)) << record->sequence;
  }
  is_over = true;
  owner.join();
}

}  // namespace
}  // namespace ffdl::ps
