#include "ps/segment/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ps/test_region.h"

namespace ffdl::ps {
namespace {

using Shards = std::vector<int>;

TEST(Placement, SharesShardsByCores) {
  struct Case {
    std::vector<NumaNode> nodes;
    int shards;
    Shards expected;
  };
  const Case cases[] = {
      {{}, 4, {}},
      {{{0, 8}}, 4, {}},
      {{{0, 8}, {1, 0}}, 4, {}},  // one has only memory, or no usable core
      {{{0, 4}, {1, 4}}, 1, {0}},
      {{{0, 4}, {1, 8}}, 1, {1}},
      {{{0, 4}, {1, 4}}, 2, {0, 1}},
      {{{0, 4}, {1, 4}}, 3, {0, 0, 1}},
      {{{0, 4}, {1, 4}}, 8, {0, 0, 0, 0, 1, 1, 1, 1}},
      {{{0, 6}, {1, 2}}, 4, {0, 0, 0, 1}},
      {{{0, 0}, {2, 4}, {5, 4}}, 2, {2, 5}},
      {{{0, 1}, {1, 1}, {2, 1}, {3, 1}}, 2, {0, 1}},
      {{{0, 1}, {1, 1}}, 256, Shards(256, 0)},
  };
  for (Case c : cases) {
    if (c.shards == 256) std::fill(c.expected.begin() + 128, c.expected.end(), 1);
    EXPECT_EQ(place_shards(c.nodes, c.shards), c.expected) << c.shards;
  }
}

// No shard would have a larger share of a node's cores on another node.
TEST(Placement, NoMoveOfAShardWouldBalanceBetter) {
  const std::vector<NumaNode> nodes = {{0, 3}, {1, 5}, {3, 16}};
  for (int shards = 1; shards <= 64; ++shards) {
    const Shards placed = place_shards(nodes, shards);
    ASSERT_EQ(placed.size(), static_cast<size_t>(shards));
    EXPECT_TRUE(std::is_sorted(placed.begin(), placed.end()));
    for (const NumaNode& from : nodes) {
      for (const NumaNode& to : nodes) {
        const auto load = std::count(placed.begin(), placed.end(), from.number);
        const auto other = std::count(placed.begin(), placed.end(), to.number);
        if (load > 0) {
          EXPECT_LE(load * to.cores, (other + 1) * from.cores) << shards;
        }
      }
    }
  }
}

struct Interval {
  std::byte* begin;
  std::byte* end;
  int node;
};

std::vector<Interval> sorted(const std::vector<NodeMemory>& memory) {
  std::vector<Interval> all;
  for (const NodeMemory& m : memory) {
    all.push_back({m.bytes.data(), m.bytes.data() + m.bytes.size(), m.node});
  }
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
  return all;
}

TEST(Placement, EveryArrayIsOnTheNodesOfItsShards) {
  Config config = TestRegion::small_config(4, 2);
  config.parameters = 11 * kBlockFloats + 5;
  const TestRegion region(config);
  const Shards shard_nodes = {0, 0, 3, 3};
  const std::vector<Interval> memory = sorted(memory_of_nodes(*region, shard_nodes));
  uint64_t bytes = 0;
  for (size_t i = 0; i < memory.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory[i].begin) % 4096, 0U);
    EXPECT_EQ((memory[i].end - memory[i].begin) % 4096, 0);
    if (i > 0) {
      EXPECT_LE(memory[i - 1].end, memory[i].begin);
    }
    bytes += static_cast<uint64_t>(memory[i].end - memory[i].begin);
  }
  // The memory has two pieces each of shadows, weights, two states, and two gradients of three
  // learners.
  EXPECT_EQ(memory.size(), 2U * (1 + 1 + 2 + 2 * 3));
  EXPECT_EQ(bytes, (12 * (1 + 2 + 2 * 3) + 4 * 2 * 3) * kBlockFloats * sizeof(float));
  const auto node_of = [&](const float* place) {
    const auto* address = reinterpret_cast<const std::byte*>(place);
    for (const Interval& m : memory) {
      if (m.begin <= address && address < m.end) return m.node;
    }
    return -1;
  };
  for (int k = 0; k < 4; ++k) {
    const int node = shard_nodes[static_cast<size_t>(k)];
    for (uint64_t block = region->shard_begin(k); block < region->shard_end(k); ++block) {
      EXPECT_EQ(node_of(region->weights() + block * kBlockFloats), node);
      EXPECT_EQ(node_of(region->state(1) + block * kBlockFloats), node);
      for (int l = 0; l < 3; ++l) {
        EXPECT_EQ(node_of(region->gradient(l, 0).floats() + block * kBlockFloats), node);
        EXPECT_EQ(node_of(region->gradient(l, 1).floats() + block * kBlockFloats), node);
      }
    }
    for (const uint64_t parity : {0U, 1U}) {
      for (uint32_t plane = 0; plane < 3; ++plane) {
        EXPECT_EQ(node_of(region->shadow(k, parity, plane)), node);
      }
    }
  }
}

TEST(Placement, GradientsOf16BitsTakeHalf) {
  Config config = TestRegion::small_config(2, 0);
  config.gradient_type = DType::kBFloat16;
  const TestRegion region(config);
  const std::vector<NodeMemory> memory = memory_of_nodes(*region, Shards{0, 1});
  const NodeMemory& last = memory.back();
  EXPECT_EQ(last.node, 1);
  EXPECT_EQ(last.bytes.size(), 3 * kBlockFloats * sizeof(uint16_t));  // blocks 2, 3 and 4
  EXPECT_EQ(last.bytes.data(), region->gradient(2, 1).bytes(2 * kBlockFloats, 1).data());
}

}  // namespace
}  // namespace ffdl::ps
