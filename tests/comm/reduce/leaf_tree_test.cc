#include "comm/reduce/leaf_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "support/leaf_cuts.h"

namespace ffdl::comm {
namespace {

// Returns the sums of the tree over the texts, in brackets, level by level.
std::string by_levels(std::vector<std::string> nodes) {
  while (nodes.size() > 1) {
    std::vector<std::string> above;
    for (size_t i = 0; i < nodes.size(); i += 2) {
      above.push_back(i + 1 < nodes.size() ? "(" + nodes[i] + "+" + nodes[i + 1] + ")" : nodes[i]);
    }
    nodes = std::move(above);
  }
  return nodes.front();
}

std::string sum_of(uint64_t begin, uint64_t end) {
  std::vector<std::string> leaves;
  for (uint64_t leaf = begin; leaf < end; ++leaf) leaves.push_back(std::to_string(leaf));
  return by_levels(leaves);
}

uint64_t end_of(const Subtree& node, uint64_t leaves) {
  return std::min(node.first + node.width, leaves);
}

TEST(SubtreesOf, AreNodesOfTheTreeThatNoOtherInTheRangeHolds) {
  for (uint64_t leaves = 1; leaves <= 17; ++leaves) {
    const std::string whole = sum_of(0, leaves);
    for (uint64_t begin = 0; begin <= leaves; ++begin) {
      for (uint64_t end = begin; end <= leaves; ++end) {
        uint64_t at = begin;
        for (const Subtree& node : subtrees_of(begin, end, leaves)) {
          ASSERT_EQ(node.first, at);
          at = end_of(node, leaves);
          EXPECT_NE(whole.find(sum_of(node.first, at)), std::string::npos);
          const uint64_t above = node.first / (2 * node.width) * (2 * node.width);
          const bool fits = above >= begin && std::min(above + 2 * node.width, leaves) <= end;
          EXPECT_TRUE(!fits || node.width >= leaves) << node.first << " in " << begin << " " << end;
        }
        ASSERT_EQ(at, end);
      }
    }
  }
}

TEST(SubtreesOf, AreAtMostTwiceTheLogarithmOfTheLeaves) {
  for (uint64_t begin = 0; begin < 70; ++begin) {
    for (uint64_t end = begin + 1; end <= 70; ++end) {
      const double most = 2 * std::log2(static_cast<double>(end - begin));
      EXPECT_LE(static_cast<double>(subtrees_of(begin, end, 70).size()), std::max(most, 1.0));
    }
  }
}

// Writes the joins of push() in brackets, with the nodes of all ranks.
TEST(Push, JoinsTheNodesOfAllRanksToTheSameTree) {
  for (uint64_t leaves = 1; leaves <= 17; ++leaves) {
    for (const std::vector<uint64_t>& shares : testing::cuts_of(leaves, 17)) {
      std::vector<Subtree> nodes;
      std::vector<std::string> sums;
      for (const auto& [begin, end] : testing::ranges_of(shares)) {
        for (const Subtree& node : subtrees_of(begin, end, leaves)) {
          sums.push_back(sum_of(node.first, end_of(node, leaves)));
          for (uint64_t joined = push(nodes, node, leaves); joined > 0; --joined) {
            const std::string right = sums.back();
            sums.pop_back();
            sums.back() = "(" + sums.back() + "+" + right + ")";
          }
        }
      }
      ASSERT_EQ(sums, std::vector<std::string>{sum_of(0, leaves)});
      ASSERT_EQ(nodes, (std::vector<Subtree>{{0, std::bit_ceil(leaves)}}));
    }
  }
}

TEST(IsTreeOfRanks, SaysWhetherTheBracketsAreTheSame) {
  int yes = 0;
  int no = 0;
  for (uint64_t leaves = 1; leaves <= 17; ++leaves) {
    for (const std::vector<uint64_t>& shares : testing::cuts_of(leaves, 17)) {
      std::vector<Subtree> nodes;
      for (const auto& [begin, end] : testing::ranges_of(shares)) {
        const std::vector<Subtree> own = subtrees_of(begin, end, leaves);
        nodes.insert(nodes.end(), own.begin(), own.end());
      }
      if (nodes.size() != shares.size()) continue;
      std::vector<std::string> sums;
      for (const Subtree& node : nodes) sums.push_back(sum_of(node.first, end_of(node, leaves)));
      const bool same = by_levels(sums) == sum_of(0, leaves);
      ASSERT_EQ(is_tree_of_ranks(nodes, leaves), same) << by_levels(sums);
      ++(same ? yes : no);
    }
  }
  EXPECT_GT(yes, 17);
  EXPECT_GT(no, 17);
}

// Checks the table of docs/decisions/0007-collectives.md for eight leaves, shared evenly. It lists
// the most values that a rank contributes, and if the tree equals that of the ranks.
TEST(IsTreeOfRanks, EightLeavesOnOneToEightRanks) {
  const size_t most_of[] = {1, 1, 2, 1, 1, 1, 1, 1};
  for (uint64_t ranks = 1; ranks <= 8; ++ranks) {
    size_t most = 0;
    std::vector<Subtree> nodes;
    for (const auto& [begin, end] : testing::ranges_of(testing::even_cut(8, ranks))) {
      const std::vector<Subtree> own = subtrees_of(begin, end, 8);
      most = std::max(most, own.size());
      nodes.insert(nodes.end(), own.begin(), own.end());
    }
    EXPECT_EQ(most, most_of[ranks - 1]) << ranks;
    if (most > 1) continue;
    EXPECT_EQ(is_tree_of_ranks(nodes, 8), std::has_single_bit(ranks)) << ranks;
  }
}

}  // namespace
}  // namespace ffdl::comm
