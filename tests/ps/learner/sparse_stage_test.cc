#include "ps/learner/sparse_stage.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace ffdl::ps {
namespace {

constexpr uint64_t kParameters = 20;

TEST(SparseStage, SortsAddsUpAndJoinsNeighbours) {
  const uint64_t rows[] = {3, 0, 3, 1};
  const float values[] = {1, 2, 3, 4, 5, 6, 7, 8};
  const float bias[] = {9, 10};
  const RowGradient table{.table = 2, .row_size = 2, .rows = rows, .values = values};
  const PartGradient part{.begin = 0, .values = bias};
  SparseStage stage;
  ASSERT_OK(stage.stage({&table, 1}, {&part, 1}, kParameters));
  // Parameters 0 1 | rows 0, 1 at 2 and 4 | row 3 at 8, twice.
  EXPECT_EQ(std::vector(stage.ranges().begin(), stage.ranges().end()),
            (std::vector<TouchedRange>{{0, 6}, {8, 10}}));
  EXPECT_EQ(std::vector(stage.values().begin(), stage.values().end()),
            (std::vector<float>{9, 10, 3, 4, 7, 8, 1 + 5, 2 + 6}));

  ASSERT_OK(stage.stage({}, {}, kParameters));  // nothing of the previous gradient stays
  EXPECT_TRUE(stage.ranges().empty());
  EXPECT_TRUE(stage.values().empty());
}

TEST(SparseStage, RefusesWhatDoesNotFit) {
  const uint64_t rows[] = {4};
  const float values[] = {1, 2, 3, 4};
  SparseStage stage;
  const auto refused = [&](const RowGradient& table, std::string_view why) {
    EXPECT_FAILS(stage.stage({&table, 1}, {}, kParameters), StatusCode::kInvalidArgument, why);
  };
  refused({.table = 0, .row_size = 3, .rows = rows, .values = values}, "row_size values for each");
  refused({.table = 0, .row_size = 0, .rows = rows, .values = values}, "row_size values for each");
  refused({.table = 2, .row_size = 4, .rows = rows, .values = values}, "row 4; with 4 floats");
  refused({.table = 21, .row_size = 4, .rows = rows, .values = values}, "there are 0 rows");
  const PartGradient outside{.begin = 17, .values = values};
  EXPECT_FAILS(stage.stage({}, {&outside, 1}, kParameters), StatusCode::kInvalidArgument,
               "4 floats from parameter 17 on");
}

TEST(SparseStage, RefusesOverlaps) {
  const uint64_t rows[] = {0, 1};
  const float values[] = {1, 2, 3, 4};
  const RowGradient table{.table = 0, .row_size = 2, .rows = rows, .values = values};
  const PartGradient part{.begin = 3, .values = values};
  const RowGradient same_place{.table = 1, .row_size = 2, .rows = rows, .values = values};
  SparseStage stage;
  EXPECT_FAILS(stage.stage({&table, 1}, {&part, 1}, kParameters), StatusCode::kInvalidArgument,
               "overlap another row or part that ends at 4");
  const RowGradient both[] = {table, same_place};
  EXPECT_FAILS(stage.stage(both, {}, kParameters), StatusCode::kInvalidArgument, "overlap");
}

}  // namespace
}  // namespace ffdl::ps
