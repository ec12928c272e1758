#include "comm/reduce/leaf_tree.h"

#include <bit>

namespace ffdl::comm {

uint64_t push(std::vector<Subtree>& nodes, Subtree next, uint64_t leaves) {
  nodes.push_back(next);
  uint64_t joined = 0;
  while (nodes.back().width < std::bit_ceil(leaves)) {
    Subtree& last = nodes.back();
    const bool is_left = last.first / last.width % 2 == 0;
    if (is_left) {
      if (last.first + last.width < leaves) break;  // its right half is still to come
      last.width *= 2;
      continue;
    }
    const Subtree left = {last.first - last.width, last.width};
    if (nodes.size() < 2 || nodes[nodes.size() - 2] != left) break;  // another rank has it
    nodes.pop_back();
    nodes.back().width *= 2;
    ++joined;
  }
  return joined;
}

std::vector<Subtree> subtrees_of(uint64_t begin, uint64_t end, uint64_t leaves) {
  std::vector<Subtree> nodes;
  for (uint64_t leaf = begin; leaf < end; ++leaf) push(nodes, {leaf, 1}, leaves);
  return nodes;
}

bool is_tree_of_ranks(std::span<const Subtree> nodes, uint64_t leaves) {
  std::vector<Subtree> over_leaves;
  std::vector<Subtree> over_ranks;
  for (uint64_t rank = 0; rank < nodes.size(); ++rank) {
    const uint64_t joined = push(over_leaves, nodes[rank], leaves);
    if (push(over_ranks, {rank, 1}, nodes.size()) != joined) return false;
  }
  return true;
}

}  // namespace ffdl::comm
