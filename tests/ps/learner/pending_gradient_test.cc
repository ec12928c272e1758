#include "ps/learner/pending_gradient.h"

#include <gtest/gtest.h>

namespace ffdl::ps {
namespace {

std::vector<SampleRange> one(const SampleRange& range) { return {range}; }

TEST(PendingGradient, NeighboursBecomeOneRange) {
  PendingGradient pending(2);
  EXPECT_TRUE(pending.empty());
  pending.add(one({.partition = 1, .begin = 0, .end = 4}), 7, false);
  pending.add(one({.partition = 1, .begin = 4, .end = 9}), 8, false);
  ASSERT_EQ(pending.ranges.size(), 1U);
  EXPECT_EQ(pending.ranges[0], (SampleRange{.partition = 1, .begin = 0, .end = 9}));
  EXPECT_EQ(pending.samples, 9U);
  EXPECT_EQ(pending.mini_batches, 2U);
  EXPECT_EQ(pending.base_version, 7U);  // version of the first gradient, the stalest
}

TEST(PendingGradient, SaysWhenNoFurtherRangeCanBeNamed) {
  PendingGradient pending(2);
  pending.add(one({.partition = 0, .begin = 0, .end = 1}), 0, false);
  pending.add(one({.partition = 1, .begin = 0, .end = 1}), 0, true);
  EXPECT_TRUE(pending.has_room_for(one({.partition = 1, .begin = 1, .end = 2})));
  EXPECT_TRUE(pending.has_room_for(one({})));
  EXPECT_FALSE(pending.has_room_for(one({.partition = 0, .begin = 1, .end = 2})));
  EXPECT_EQ(pending.skipped, 1U);
  pending.clear();
  EXPECT_TRUE(pending.empty());
  EXPECT_TRUE(pending.has_room_for(one({.partition = 0, .begin = 1, .end = 2})));
}

TEST(PendingGradient, OneMiniBatchNamesSeveralRanges) {
  PendingGradient pending(3);
  const std::vector<SampleRange> named = {{.partition = 0, .begin = 0, .end = 2},
                                          {.partition = 1, .begin = 7, .end = 8},
                                          {.partition = 1, .begin = 8, .end = 9}};
  ASSERT_TRUE(pending.has_room_for(named));
  pending.add(named, 1, false);
  EXPECT_EQ(pending.mini_batches, 1U);
  EXPECT_EQ(pending.samples, 4U);
  ASSERT_EQ(pending.ranges.size(), 2U);
  EXPECT_EQ(pending.ranges[1], (SampleRange{.partition = 1, .begin = 7, .end = 9}));
  EXPECT_FALSE(pending.has_room_for(named));  // two more
}

TEST(PendingGradient, MiniBatchesWithoutSamplesNameNone) {
  PendingGradient pending(1);
  pending.add(one({}), 3, false);
  EXPECT_FALSE(pending.empty());
  EXPECT_TRUE(pending.ranges.empty());
}

}  // namespace
}  // namespace ffdl::ps
