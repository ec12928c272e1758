#include "data/formats/file_extents.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace ffdl::data {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(Stretches, HoldAllSamplesAndFarPlacesAreApart) {
  const struct {
    const char* what;
    std::vector<Extent> samples;
    std::vector<Extent> stretches;
  } cases[] = {
      {"none", {}, {}},
      {"one", {{7, 3}}, {{7, 3}}},
      {"one twice", {{7, 3}, {7, 3}}, {{7, 3}}},
      {"backwards", {{20, 10}, {10, 10}, {0, 10}}, {{0, 30}}},
      {"overlapping", {{0, 10}, {5, 10}, {2, 3}}, {{0, 15}}},
      {"without bytes", {{100, 0}, {90, 0}}, {{90, 10}}},
      {"two places, in turn",
       {{3 * kMiB, 8}, {0, 8}, {3 * kMiB + 8, 8}, {8, 8}},
       {{0, 16}, {3 * kMiB, 16}}},
      {"as far as one reaches", {{0, 8}, {kMiB + 8, 8}}, {{0, kMiB + 16}}},
      {"further", {{0, 8}, {kMiB + 9, 8}}, {{0, 8}, {kMiB + 9, 8}}},
      {"two that grow until they touch",
       {{0, 8}, {4 * kMiB, 8}, {kMiB, 8}, {3 * kMiB + 8, 8}, {kMiB + 8, 2 * kMiB}},
       {{0, 4 * kMiB + 8}}},
      {"two that grow, and stay apart",
       {{0, 8}, {4 * kMiB, 8}, {kMiB, 8}, {3 * kMiB + 8, 8}},
       {{0, kMiB + 8}, {3 * kMiB + 8, kMiB}}},
  };
  for (const auto& [what, samples, stretches] : cases) {
    EXPECT_EQ(few_stretches(samples), stretches) << what;
  }
}

TEST(Stretches, AreMergedWhereTheyLieWithinReach) {
  EXPECT_EQ(merged({}, 10), std::vector<Extent>());
  EXPECT_EQ(merged({{40, 5}, {0, 10}, {20, 5}, {36, 3}, {4, 3}}, 10),
            (std::vector<Extent>{{0, 25}, {36, 9}}));
  EXPECT_EQ(merged({{40, 5}, {0, 10}, {20, 5}, {36, 3}, {4, 3}}, 9),
            (std::vector<Extent>{{0, 10}, {20, 5}, {36, 9}}));
}

TEST(Stretches, AreFew) {
  std::vector<Extent> samples;
  for (uint64_t i = 0; i < 16; ++i) samples.push_back({(i * 7 % 16) * 2 * kMiB, 8});
  const auto found = few_stretches(samples);
  ASSERT_EQ(found.size(), 16U);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(found[i], (Extent{i * 2 * kMiB, 8}));
  samples.push_back(samples[3]);
  EXPECT_EQ(few_stretches(samples), found);
  samples.push_back({32 * kMiB, 8});
  EXPECT_TRUE(few_stretches(samples).empty());
}

TEST(Stretches, AreDenseWhereSamplesFillHalfOfThem) {
  const std::vector<Extent> stretches = {{0, kMiB}, {5 * kMiB, kMiB}};
  EXPECT_TRUE(are_dense({}, 0));
  EXPECT_TRUE(are_dense(stretches, kMiB));
  EXPECT_TRUE(are_dense(stretches, kMiB - 2048));
  EXPECT_FALSE(are_dense(stretches, kMiB - 2049));
}

}  // namespace
}  // namespace ffdl::data
