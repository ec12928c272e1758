#include "ps/segment/placement.h"

#include <algorithm>

namespace ffdl::ps {
namespace {

// Returns true if node a would have fewer shards per core than b, with one more each.
bool less_loaded(const NumaNode& a, int shards_a, const NumaNode& b, int shards_b) {
  return int64_t{shards_a + 1} * b.cores < int64_t{shards_b + 1} * a.cores;
}

std::span<std::byte> bytes_of(float* first, uint64_t floats) {
  return {reinterpret_cast<std::byte*>(first), floats * sizeof(float)};
}

}  // namespace

std::vector<int> place_shards(std::span<const NumaNode> nodes, int shards) {
  std::vector<NumaNode> with_cores;
  std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(with_cores),
               [](const NumaNode& node) { return node.cores > 0; });
  if (with_cores.size() < 2) return {};
  std::vector<int> counts(with_cores.size(), 0);
  for (int k = 0; k < shards; ++k) {
    size_t best = 0;
    for (size_t n = 1; n < counts.size(); ++n) {
      if (less_loaded(with_cores[n], counts[n], with_cores[best], counts[best])) best = n;
    }
    ++counts[best];
  }
  std::vector<int> shard_nodes;
  for (size_t n = 0; n < counts.size(); ++n) {
    shard_nodes.insert(shard_nodes.end(), static_cast<size_t>(counts[n]), with_cores[n].number);
  }
  return shard_nodes;
}

std::vector<NodeMemory> memory_of_nodes(const Region& region, std::span<const int> shard_nodes) {
  const Config& config = region.config();
  std::vector<NodeMemory> pieces;
  for (int first = 0, end = 0; first < region.shards(); first = end) {
    const int node = shard_nodes[static_cast<size_t>(first)];
    while (end < region.shards() && shard_nodes[static_cast<size_t>(end)] == node) ++end;
    const uint64_t begin = region.shard_begin(first) * kBlockFloats;
    const uint64_t count = region.shard_end(end - 1) * kBlockFloats - begin;
    const uint64_t shadow_floats =
        static_cast<uint64_t>(end - first) * 2 * (1 + config.state_count) * kBlockFloats;
    pieces.push_back({node, bytes_of(region.shadow(first, 0, 0), shadow_floats)});
    pieces.push_back({node, bytes_of(region.weights() + begin, count)});
    for (uint32_t s = 0; s < config.state_count; ++s) {
      pieces.push_back({node, bytes_of(region.state(s) + begin, count)});
    }
    for (int l = 0; l < region.learners_max(); ++l) {
      for (const uint64_t q : {0U, 1U}) {
        pieces.push_back({node, region.gradient(l, q).bytes(begin, count)});
      }
    }
  }
  return pieces;
}

}  // namespace ffdl::ps
