#pragma once

#include <cstdint>
#include <span>
#include <vector>

// The fixed tree of docs/decisions/0007-collectives.md over leaves that the ranks compute: which of
// its nodes a rank can add alone, and how the nodes of all of them come together. Pure functions.
namespace ffdl::comm {

// A node over those of the leaves [first, first + width) that there are; `width` is a power of two
// and divides `first`. The last node of a tree may be wider than it has leaves: a missing right
// half is skipped.
struct Subtree {
  uint64_t first = 0;
  uint64_t width = 1;

  bool operator==(const Subtree&) const = default;
};

// Lays the next node to the right of `nodes`, and joins the last two as long as they are the halves
// of one node of the tree over `leaves`. Returns how often.
uint64_t push(std::vector<Subtree>& nodes, Subtree next, uint64_t leaves);

// What is left of the leaves [begin, end) when all is added that can be added without others.
std::vector<Subtree> subtrees_of(uint64_t begin, uint64_t end, uint64_t leaves);

// Where each rank has one node: the tree over the ranks joins them as the tree over the leaves
// does.
bool is_tree_of_ranks(std::span<const Subtree> nodes, uint64_t leaves);

}  // namespace ffdl::comm
