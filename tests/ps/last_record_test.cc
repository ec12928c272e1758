#include "ps/last_record.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

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

// A reader that is late does not see half of one record and half of another.
TEST(LastRecord, IsWholeWhileItsOwnerGoesOn) {
  TestRegion region(TestRegion::small_config(1, 1));
  std::atomic<bool> is_over = false;
  std::thread owner([&] {
    for (uint64_t sequence = 1; sequence <= 20'000; ++sequence) {
      const SampleRange range{static_cast<uint32_t>(sequence), sequence, 2 * sequence};
      write_ranges(*region, 0, sequence, {&range, 1});
      region->learner(0).pub.store(sequence);
    }
    is_over = true;
  });
  uint64_t last = 0;
  while (!is_over) {
    const auto record = read_last_record(*region, 0);
    if (!record) continue;
    EXPECT_GE(record->sequence, last);
    last = record->sequence;
    ASSERT_EQ(record->ranges.size(), 1U);
    const SampleRange expected{static_cast<uint32_t>(last), last, 2 * last};
    EXPECT_EQ(record->ranges[0], expected) << last;
  }
  owner.join();
}

}  // namespace
}  // namespace ffdl::ps
