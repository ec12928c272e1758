#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ps/layout.h"

// Which memory of a server goes to which NUMA node: decisions, without a look at the machine.
namespace ffdl::ps {

struct NumaNode {
  int number = 0;  // the system's
  int cores = 0;   // that this process may use, and that no other node has
};

// The node of each shard: as many shards per core on all nodes as can be, shards of one node side
// by side. Empty when fewer than two nodes have cores: nothing to decide.
std::vector<int> place_shards(std::span<const NumaNode> nodes, int shards);

// Memory that belongs on one node.
struct NodeMemory {
  int node = 0;
  std::span<std::byte> bytes;
};

// All that the shards' threads go through: weights, state, shadows, and the shards' parts of every
// learner's gradients. Shards of one node that are neighbours make one piece of each array. Pieces
// are whole pages, but for 16-bit gradients, of which two nodes may share a page. Only places are
// computed; the memory is not looked at.
std::vector<NodeMemory> memory_of_nodes(const Region& region, std::span<const int> shard_nodes);

}  // namespace ffdl::ps
