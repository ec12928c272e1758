#include "comm/reduce/subtree_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "comm/reduce/tree_reduce.h"
#include "support/elements.h"
#include "support/status_matchers.h"

namespace ffdl::comm {
namespace {

using testing::Elements;

constexpr uint64_t kValues = 2049;  // more than one pass takes

// Returns unaligned leaves of numbers that show in which order they were added.
std::vector<Elements> random_leaves(DType type, uint64_t count) {
  std::mt19937 random(3);
  std::vector<Elements> leaves(count, Elements(type, kValues, 1));
  for (Elements& leaf : leaves) {
    for (uint64_t i = 0; i < kValues; ++i) {
      const int exponent = -17 - static_cast<int>(random() % 30);
      leaf.set(i, std::ldexp(static_cast<double>(random()), exponent));
    }
  }
  return leaves;
}

// Returns the sum of the leaves [begin, end). Narrow types are widened first.
std::vector<float> sum_of(std::vector<Elements>& leaves, uint64_t begin, uint64_t end) {
  std::vector<std::vector<float>> wide;
  std::vector<const std::byte*> places;
  for (uint64_t leaf = begin; leaf < end; ++leaf) {
    wide.emplace_back(kValues);
    for (uint64_t i = 0; i < kValues; ++i) wide.back()[i] = static_cast<float>(leaves[leaf].get(i));
  }
  for (const auto& row : wide) places.push_back(reinterpret_cast<const std::byte*>(row.data()));
  std::vector<float> sum(kValues);
  tree_reduce(ReduceOp::kSum, DType::kFloat32, places, reinterpret_cast<std::byte*>(sum.data()),
              kValues);
  return sum;
}

void add_all(SubtreeValues& values, std::vector<Elements>& leaves, uint64_t begin, uint64_t end) {
  for (uint64_t leaf = begin; leaf < end; ++leaf) {
    // The leaf is passed as a list of buffers.
    const Buffer parts[] = {leaves[leaf].part(0, 0), leaves[leaf].part(0, 700),
                            leaves[leaf].part(700, kValues - 700)};
    ASSERT_OK(values.add(leaf, leaves.size(), parts));
  }
}

TEST(SubtreeValues, AreTheSumsOfTheirLeaves) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    std::vector<Elements> leaves = random_leaves(type, 11);
    for (uint64_t begin = 0; begin < 11; ++begin) {
      for (uint64_t end = begin; end <= 11; ++end) {
        SubtreeValues values(ReduceOp::kSum, type, kValues, kValues + 5);
        EXPECT_EQ(values.type(), DType::kFloat32);
        for (int step = 0; step < 2; ++step) {
          values.clear();
          add_all(values, leaves, begin, end);
          ASSERT_EQ(values.nodes(), subtrees_of(begin, end, 11));
          for (size_t i = 0; i < values.nodes().size(); ++i) {
            const Subtree node = values.nodes()[i];
            const auto* const sum = reinterpret_cast<const float*>(values.value(i));
            ASSERT_EQ(std::vector<float>(sum, sum + kValues),
                      sum_of(leaves, node.first, std::min<uint64_t>(node.first + node.width, 11)));
            ASSERT_EQ(std::vector<float>(sum + kValues, sum + kValues + 5), std::vector<float>(5));
          }
        }
      }
    }
  }
}

// 2048 + 1 + 1 is 2050 if rounded once, and 2048 if each sum is rounded.
TEST(SubtreeValues, HalvesAreNotRounded) {
  SubtreeValues values(ReduceOp::kSum, DType::kFloat16, 1, 1);
  const double numbers[] = {2048, 1, 1};
  for (uint64_t leaf = 0; leaf < 3; ++leaf) {
    Elements one(DType::kFloat16, 1);
    one.set(0, numbers[leaf]);
    const Buffer buffer = one.buffer();
    ASSERT_OK(values.add(leaf, 3, {&buffer, 1}));
  }
  ASSERT_EQ(values.nodes().size(), 1U);
  EXPECT_EQ(*reinterpret_cast<const float*>(values.value(0)), 2050);
}

}  // namespace
}  // namespace ffdl::comm
