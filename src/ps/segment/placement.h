#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ps/segment/layout.h"

// Decides which memory of a server belongs on which NUMA node, without inspecting the machine.
namespace ffdl::ps {

struct NumaNode {
  int number = 0;  // the system's number
  int cores = 0;   // usable by this process, and belonging to no other node
};

// Returns the node of each shard, with shards per core as equal as possible. Shards of one node are
// neighbours. Returns an empty list if fewer than two nodes have cores.
std::vector<int> place_shards(std::span<const NumaNode> nodes, int shards);

// Memory that belongs on one node.
struct NodeMemory {
  int node = 0;
  std::span<std::byte> bytes;
};

// Returns all memory that the shards' threads access: weights, state, shadows, and the shards'
// parts of every learner's gradients. Neighbouring shards of one node form one piece of each array.
// Pieces are whole pages, except for 16-bit gradients, of which two nodes may share a page. Only
// addresses are computed; the memory is not accessed.
std::vector<NodeMemory> memory_of_nodes(const Region& region, std::span<const int> shard_nodes);

}  // namespace ffdl::ps
