#include "cluster/plan/placement.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace ffdl::cluster {
namespace {

TEST(Place, FollowsItsRule) {
  const struct {
    std::vector<int> free;
    int workers;
    PlacementRule rule;
    Allocation expected;
  } cases[] = {
      {{4, 3, 2, 4}, 2, PlacementRule::kPack, {{2, 2}}},
      {{4, 3, 2, 4}, 1, PlacementRule::kPack, {{2, 1}}},
      {{4, 3, 2, 4}, 6, PlacementRule::kPack, {{0, 4}, {2, 2}}},
      {{1, 1, 1}, 2, PlacementRule::kPack, {{0, 1}, {1, 1}}},
      {{2, 4, 4}, 2, PlacementRule::kMostFree, {{1, 2}}},
      {{2, 4, 4}, 9, PlacementRule::kMostFree, {{1, 4}, {2, 4}, {0, 1}}},
      {{2, 4, 3}, 4, PlacementRule::kSpread, {{1, 2}, {2, 1}, {0, 1}}},
      {{4, 4, 4}, 3, PlacementRule::kSpread, {{0, 1}, {1, 1}, {2, 1}}},
      {{4, 4}, 9, PlacementRule::kPack, {}},  // all workers or none
      {{4, 4}, 9, PlacementRule::kSpread, {}},
  };
  for (const auto& c : cases) {
    std::vector<int> free = c.free;
    const Allocation allocation = place(free, c.workers, c.rule);
    EXPECT_EQ(allocation, c.expected);
    release(free, allocation);
    EXPECT_EQ(free, c.free);
  }
}

TEST(Place, NeverTakesMoreThanThereIs) {
  std::mt19937 random(3);
  std::uniform_int_distribution<int> room(0, 4), workers(1, 20);
  for (int round = 0; round < 10'000; ++round) {
    std::vector<int> free(5);
    for (int& one : free) one = room(random);
    const int before = std::accumulate(free.begin(), free.end(), 0);
    const int wanted = workers(random);
    const auto rule = static_cast<PlacementRule>(round % 3);
    const int placed = workers_of(place(free, wanted, rule));
    ASSERT_EQ(placed, wanted <= before ? wanted : 0);
    ASSERT_EQ(std::accumulate(free.begin(), free.end(), 0), before - placed);
    for (const int one : free) ASSERT_GE(one, 0);
  }
}

TEST(Packed, FillsNodesOneAfterTheOther) {
  EXPECT_EQ(packed(1, 4), (std::vector{1}));
  EXPECT_EQ(packed(4, 4), (std::vector{4}));
  EXPECT_EQ(packed(10, 4), (std::vector{4, 4, 2}));
}

TEST(Take, TakesAllOrNothing) {
  std::vector<int> free = {2, 1};
  EXPECT_FALSE(take(free, {{0, 1}, {1, 2}}));
  EXPECT_EQ(free, (std::vector{2, 1}));
  EXPECT_TRUE(take(free, {{0, 1}, {1, 1}}));
  EXPECT_EQ(free, (std::vector{1, 0}));
}

}  // namespace
}  // namespace ffdl::cluster
