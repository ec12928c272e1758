#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

// Makes ways to divide the leaves of a tree among ranks: the number of each, in order.
namespace ffdl::testing {

inline std::vector<uint64_t> even_cut(uint64_t leaves, uint64_t ranks) {
  std::vector<uint64_t> shares(ranks, leaves / ranks);
  for (uint64_t rank = 0; rank < leaves % ranks; ++rank) ++shares[rank];
  return shares;
}

// Gives each leaf to some rank; some ranks may have none.
inline std::vector<uint64_t> random_cut(uint64_t leaves, uint64_t ranks, std::mt19937& random) {
  std::vector<uint64_t> shares(ranks);
  for (uint64_t leaf = 0; leaf < leaves; ++leaf) ++shares[random() % ranks];
  return shares;
}

// Returns even and random divisions for 1 to `ranks_max` ranks, but no more ranks than leaves.
inline std::vector<std::vector<uint64_t>> cuts_of(uint64_t leaves, uint64_t ranks_max) {
  std::mt19937 random(7);
  std::vector<std::vector<uint64_t>> cuts;
  for (uint64_t ranks = 1; ranks <= std::min(leaves, ranks_max); ++ranks) {
    cuts.push_back(even_cut(leaves, ranks));
    for (int i = 0; i < 20; ++i) cuts.push_back(random_cut(leaves, ranks, random));
  }
  return cuts;
}

// Returns [begin, end) of each rank.
inline std::vector<std::pair<uint64_t, uint64_t>> ranges_of(const std::vector<uint64_t>& shares) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  uint64_t begin = 0;
  for (const uint64_t share : shares) {
    ranges.emplace_back(begin, begin + share);
    begin += share;
  }
  return ranges;
}

}  // namespace ffdl::testing
