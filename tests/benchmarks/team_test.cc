#include "benchmarks/harness/team.h"

#include <gtest/gtest.h>

#include <atomic>

namespace ffdl::bench {
namespace {

TEST(Team, RunsEveryMemberOncePerTurn) {
  Team team(3);
  std::array<std::atomic<int>, 3> turns{};
  for (int i = 0; i < 100; ++i) team.run([&](int member) { ++turns[static_cast<size_t>(member)]; });
  for (const auto& turn : turns) EXPECT_EQ(turn, 100);
}

TEST(Team, PartsCoverEverythingOnceAndShareNoCacheLine) {
  const Team team(3);
  for (size_t count : {size_t{0}, size_t{1}, size_t{15}, size_t{16}, size_t{1000}, size_t{4096}}) {
    size_t expected = 0;
    for (int member = 0; member < 3; ++member) {
      const auto [begin, end] = team.part(count, member);
      EXPECT_EQ(begin, expected);
      EXPECT_TRUE(begin % 16 == 0 || begin == count);
      expected = end;
    }
    EXPECT_EQ(expected, count);
  }
}

}  // namespace
}  // namespace ffdl::bench
