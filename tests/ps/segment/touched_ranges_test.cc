#include "ps/segment/touched_ranges.h"

#include <gtest/gtest.h>

#include <random>

namespace ffdl::ps {
namespace {

using Ranges = std::vector<TouchedRange>;

TEST(Touched, UnionMergesOverlapsAndNeighbours) {
  EXPECT_EQ(unite({}, {}), Ranges{});
  EXPECT_EQ(unite(Ranges{{2, 4}}, {}), (Ranges{{2, 4}}));
  EXPECT_EQ(unite(Ranges{{0, 2}, {8, 9}}, Ranges{{2, 3}, {5, 6}}),
            (Ranges{{0, 3}, {5, 6}, {8, 9}}));
  EXPECT_EQ(unite(Ranges{{0, 10}}, Ranges{{2, 3}, {9, 12}}), (Ranges{{0, 12}}));
}

TEST(Touched, SplitTellsInsideFromOutside) {
  const Ranges list = {{2, 4}, {6, 7}, {9, 20}};
  std::vector<std::tuple<uint64_t, uint64_t, bool>> seen;
  const auto visit = [&](const TouchedRange& part, bool inside) {
    seen.emplace_back(part.begin, part.end, inside);
  };
  split({0, 12}, list, visit);
  const decltype(seen) expected = {{0, 2, false}, {2, 4, true},  {4, 6, false},
                                   {6, 7, true},  {7, 9, false}, {9, 12, true}};
  EXPECT_EQ(seen, expected);
  seen.clear();
  split({3, 4}, list, visit);
  split({20, 22}, list, visit);
  split({5, 5}, list, visit);
  EXPECT_EQ(seen, (decltype(seen){{3, 4, true}, {20, 22, false}}));
}

// Compares the ranges with sets of elements.
TEST(Touched, RandomListsAgreeWithSetsOfElements) {
  std::mt19937 random(5);
  const auto draw = [&](std::vector<bool>& marks) {
    Ranges list;
    for (uint64_t at = random() % 5; at < 60;) {
      const uint64_t end = std::min<uint64_t>(60, at + 1 + random() % 9);
      for (uint64_t i = at; i < end; ++i) marks[i] = true;
      list.push_back({at, end});
      at = end + 1 + random() % 9;
    }
    return list;
  };
  for (int round = 0; round < 2'000; ++round) {
    std::vector<bool> a(60);
    std::vector<bool> b(60);
    const Ranges first = draw(a);
    const Ranges second = draw(b);
    std::vector<bool> both(60);
    uint64_t last_end = 0;
    for (const TouchedRange& range : unite(first, second)) {
      ASSERT_TRUE(range.begin > last_end || range.begin == 0);  // neighbours became one
      last_end = range.end;
      for (uint64_t i = range.begin; i < range.end; ++i) both[i] = true;
    }
    for (uint64_t i = 0; i < 60; ++i) ASSERT_EQ(both[i], a[i] || b[i]);

    uint64_t next = 0;
    split({0, 60}, second, [&](const TouchedRange& part, bool inside) {
      ASSERT_EQ(part.begin, next);
      next = part.end;
      for (uint64_t i = part.begin; i < part.end; ++i) ASSERT_EQ(b[i], inside);
    });
    ASSERT_EQ(next, 60U);
  }
}

TEST(TouchedSteps, CutAtBlocksAndShardsAndPackFull) {
  TouchedSteps steps;
  steps.plan(Ranges{{0, 20}, {40, 41}, {100, 300}}, {16, 256}, 64);
  Ranges all;
  for (uint64_t n = 0; n < steps.size(); ++n) {
    uint64_t floats = 0;
    for (const TouchedRange& part : steps.step(n)) {
      floats += padded_count(part);
      EXPECT_EQ(part.begin / 64, (part.end - 1) / 64);  // within one block
      all.push_back(part);
    }
    EXPECT_LE(floats, 64U);
  }
  EXPECT_EQ(all, (Ranges{{16, 20}, {40, 41}, {100, 128}, {128, 192}, {192, 256}}));
  EXPECT_EQ(steps.size(), 3U);  // 16 + 16 + 32, 64, 64 floats
}

TEST(TouchedSteps, NothingOfAnotherShard) {
  TouchedSteps steps;
  steps.plan(Ranges{{0, 20}, {400, 410}}, {64, 256}, 64);
  EXPECT_EQ(steps.size(), 0U);
  steps.plan({}, {0, 256}, 64);
  EXPECT_EQ(steps.size(), 0U);
}

}  // namespace
}  // namespace ffdl::ps
