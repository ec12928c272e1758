#include "comm/reduce/tree_reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "support/elements.h"
#include "support/leaf_cuts.h"

namespace ffdl::comm {
namespace {

using Rows = std::vector<std::vector<float>>;

Rows random_rows(size_t ranks, size_t count) {
  std::mt19937 random(3);
  Rows rows(ranks, std::vector<float>(count));
  for (auto& row : rows) {
    for (float& value : row) {
      value = std::ldexp(static_cast<float>(random()), -static_cast<int>(random() % 60));
    }
  }
  return rows;
}

template <class T>
std::vector<const std::byte*> places_of(const std::vector<std::vector<T>>& rows) {
  std::vector<const std::byte*> places;
  for (const auto& row : rows) places.push_back(reinterpret_cast<const std::byte*>(row.data()));
  return places;
}

template <class T>
std::byte* bytes_of(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

// Evaluates the tree of the decision, level by level.
float by_levels(std::vector<float> nodes) {
  while (nodes.size() > 1) {
    std::vector<float> above;
    for (size_t i = 0; i < nodes.size(); i += 2) {
      above.push_back(i + 1 < nodes.size() ? nodes[i] + nodes[i + 1] : nodes[i]);
    }
    nodes = std::move(above);
  }
  return nodes.front();
}

TEST(TreeReduce, AddsNeighboursLevelByLevel) {
  for (size_t ranks = 1; ranks <= 33; ++ranks) {
    const Rows rows = random_rows(ranks, 1025);
    std::vector<float> out(1026, -1);
    tree_reduce(ReduceOp::kSum, DType::kFloat32, places_of(rows), bytes_of(out), 1025);
    for (size_t i = 0; i < 1025; ++i) {
      std::vector<float> leaves;
      for (const auto& row : rows) leaves.push_back(row[i]);
      ASSERT_EQ(out[i], by_levels(leaves)) << ranks << " ranks at " << i;
    }
    EXPECT_EQ(out[1025], -1);
  }
}

// A rank with several leaves may add complete subtrees beforehand.
TEST(TreeReduce, SubtreesAddedBeforehandGiveTheSameBits) {
  const Rows rows = random_rows(8, 777);
  std::vector<float> whole(777);
  tree_reduce(ReduceOp::kSum, DType::kFloat32, places_of(rows), bytes_of(whole), 777);
  for (const size_t width : {2U, 4U}) {
    Rows nodes;
    for (size_t first = 0; first < 8; first += width) {
      const Rows leaves(rows.begin() + static_cast<std::ptrdiff_t>(first),
                        rows.begin() + static_cast<std::ptrdiff_t>(first + width));
      nodes.emplace_back(777);
      tree_reduce(ReduceOp::kSum, DType::kFloat32, places_of(leaves), bytes_of(nodes.back()), 777);
    }
    std::vector<float> together(777);
    tree_reduce(ReduceOp::kSum, DType::kFloat32, places_of(nodes), bytes_of(together), 777);
    EXPECT_EQ(together, whole) << width;
  }
}

// A rank may have any leaves, one after another.
TEST(TreeReduce, NodesOfAnyCutGiveTheSameBits) {
  for (uint64_t leaves = 1; leaves <= 17; ++leaves) {
    const Rows rows = random_rows(leaves, 777);
    std::vector<float> whole(777);
    tree_reduce(ReduceOp::kMean, DType::kFloat32, places_of(rows), bytes_of(whole), 777);
    for (const std::vector<uint64_t>& shares : testing::cuts_of(leaves, 17)) {
      std::vector<Subtree> nodes;
      Rows values;
      for (const auto& [begin, end] : testing::ranges_of(shares)) {
        for (const Subtree& node : subtrees_of(begin, end, leaves)) {
          const auto first = rows.begin() + static_cast<std::ptrdiff_t>(node.first);
          const auto count = std::min(node.width, leaves - node.first);
          const Rows own(first, first + static_cast<std::ptrdiff_t>(count));
          nodes.push_back(node);
          values.emplace_back(777);
          tree_reduce(ReduceOp::kSum, DType::kFloat32, places_of(own), bytes_of(values.back()),
                      777);
        }
      }
      std::vector<float> out(777);
      tree_reduce(ReduceOp::kMean, DType::kFloat32, places_of(values), nodes, leaves, bytes_of(out),
                  777);
      ASSERT_EQ(out, whole) << leaves;
    }
  }
}

TEST(TreeReduce, TheOutputMayBeAnInput) {
  const Rows rows = random_rows(5, 1300);
  std::vector<float> expected(1300);
  tree_reduce(ReduceOp::kSum, DType::kFloat32, places_of(rows), bytes_of(expected), 1300);
  for (size_t which = 0; which < 5; ++which) {
    Rows copy = rows;
    const auto places = places_of(copy);
    tree_reduce(ReduceOp::kSum, DType::kFloat32, places, bytes_of(copy[which]), 1300);
    EXPECT_EQ(copy[which], expected) << which;
  }
}

// 2048 + 1 + 1 is 2050 if rounded once, and 2048 if each sum is rounded.
TEST(TreeReduce, HalvesAreRoundedOnce) {
  std::vector<std::vector<uint16_t>> rows(3, std::vector<uint16_t>(1));
  const float values[] = {2048, 1, 1};
  for (size_t i = 0; i < 3; ++i) base::narrow(DType::kFloat16, &values[i], rows[i].data(), 1);
  std::vector<uint16_t> out(1);
  tree_reduce(ReduceOp::kSum, DType::kFloat16, places_of(rows), bytes_of(out), 1);
  EXPECT_EQ(testing::get_element(DType::kFloat16, bytes_of(out)), 2050);
}

// Includes results too small to be normal, and numbers of ranks with and without an exact inverse.
TEST(TreeReduce, TheMeanIsTheQuotient) {
  for (size_t ranks = 1; ranks <= 9; ++ranks) {
    Rows rows = random_rows(ranks, 515);
    for (auto& row : rows) {
      for (size_t i = 0; i < row.size(); i += 2) row[i] = std::ldexp(row[i], -120);
    }
    std::vector<float> out(515);
    tree_reduce(ReduceOp::kMean, DType::kFloat32, places_of(rows), bytes_of(out), 515);
    std::vector<float> sum(515);
    tree_reduce(ReduceOp::kSum, DType::kFloat32, places_of(rows), bytes_of(sum), 515);
    std::vector<float> divided = sum;
    divide({divided.data(), divided.size(), DType::kFloat32}, static_cast<double>(ranks));
    for (size_t i = 0; i < 515; ++i) {
      ASSERT_EQ(out[i], sum[i] / static_cast<float>(ranks)) << ranks << " ranks at " << i;
    }
    EXPECT_EQ(divided, out);
  }
}

TEST(TreeReduce, TheMeanOfOneRankIsItself) {
  std::vector<std::vector<double>> rows = {{1.5, -3}};
  std::vector<double> out(2);
  tree_reduce(ReduceOp::kMean, DType::kFloat64, places_of(rows), bytes_of(out), 2);
  EXPECT_EQ(out, rows[0]);
}

}  // namespace
}  // namespace ffdl::comm
