#include "cluster/plan/max_plus.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace ffdl::cluster {
namespace {

// Tests every length up to several vectors, so that both the blocks and the remainders are covered.
TEST(MaxPlusRow, EqualsTheLoopThatItReplaces) {
  std::mt19937 random(4);
  std::uniform_int_distribution<int> few(0, 6);
  for (size_t columns = 0; columns < 150; ++columns) {
    std::vector<Choice> choices;
    int weight = 0;
    for (int i = 0; i < 1 + few(random); ++i, weight += 1 + few(random)) {
      choices.push_back({weight, 0.5 * few(random)});  // few different values: many ties
    }
    const auto padding = static_cast<size_t>(choices.back().weight);
    std::vector<double> before(padding + columns, -INFINITY);
    for (size_t i = padding; i < before.size(); ++i) before[i] = few(random);
    std::vector<double> after(columns);
    std::vector<uint16_t> pick(columns);
    max_plus_row(before.data() + padding, choices, after, pick);
    for (size_t column = 0; column < columns; ++column) {
      double best = -INFINITY;
      size_t best_pick = 0;
      for (size_t i = 0; i < choices.size(); ++i) {
        const double value =
            before[padding + column - static_cast<size_t>(choices[i].weight)] + choices[i].value;
        if (value > best) best = value, best_pick = i;
      }
      ASSERT_EQ(after[column], best);
      ASSERT_EQ(pick[column], best_pick);
    }
  }
}

}  // namespace
}  // namespace ffdl::cluster
