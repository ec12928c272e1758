#pragma once

#include <cstdint>
#include <span>
#include <vector>

// The fixed tree of docs/decisions/0007-collectives.md over leaves that the ranks compute. These
// pure functions define which nodes a rank can add alone, and how the nodes of all ranks are
// joined.
namespace ffdl::comm {

// A node over those of the leaves [first, first + width) that exist; `width` is a power of two and
// divides `first`. The last node of a tree may be wider than its leaves: a missing right half is
// skipped.
struct Subtree {
  uint64_t first = 0;
  uint64_t width = 1;

  bool operator==(const Subtree&) const = default;
};

// Appends the next node to the right of `nodes`. Joins the last two while they are the halves of
// one node of the tree over `leaves`. Returns the number of joins.
uint64_t push(std::vector<Subtree>& nodes, Subtree next, uint64_t leaves);

// Returns the nodes left of the leaves [begin, end) after all additions that need no other leaves.
std::vector<Subtree> subtrees_of(uint64_t begin, uint64_t end, uint64_t leaves);

// Returns whether the tree over the ranks joins `nodes` as the tree over the leaves does. Each rank
// has one node.
bool is_tree_of_ranks(std::span<const Subtree> nodes, uint64_t leaves);

}  // namespace ffdl::comm
