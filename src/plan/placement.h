#pragma once

#include <span>
#include <vector>

#include "ffdl/job_planner.h"

namespace ffdl::plan {

using Allocation = std::vector<NodeWorkers>;

enum class PlacementRule {
  kPack,      // on as few nodes as possible, and where they fill up what is left of a node
  kMostFree,  // as many as possible on the node with most room, then on the next
  kSpread,    // one by one, each on the node with most room
};

int workers_of(const Allocation& allocation);

// Places all workers of a job or, where they do not fit, none (the answer is empty then). free: the
// room on each node; what was placed is taken off it. Of equal nodes the first is taken.
Allocation place(std::span<int> free, int workers, PlacementRule rule);

// Onto empty nodes, as few as possible: how a job would be placed if it were alone.
std::vector<int> packed(int workers, int per_node);

// Takes the room of an allocation; false, and nothing is taken: it is not there.
bool take(std::span<int> free, const Allocation& allocation);
// Gives the room of an allocation back.
void release(std::span<int> free, const Allocation& allocation);

}  // namespace ffdl::plan
