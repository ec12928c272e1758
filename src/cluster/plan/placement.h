#pragma once

#include <span>
#include <vector>

#include "cluster/plan/placed_request.h"

namespace ffdl::cluster {

// The places of one job.
using Allocation = std::vector<Place>;

enum class PlacementRule {
  kPack,      // on as few nodes as possible, first in the tightest room of a node
  kMostFree,  // as many as possible on the node with most room, then on the next
  kSpread,    // one by one, each on the node with most room
};

int workers_of(const Allocation& allocation);

// Places all workers of a job, or none if they do not fit (the answer is empty then). free: the
// room on each node; the room of placed workers is subtracted. Of equal nodes the first is taken.
Allocation place(std::span<int> free, int workers, PlacementRule rule);

// Places on empty nodes, as few as possible: the placement of a job that is alone.
std::vector<int> packed(int workers, int per_node);

// Takes the room of an allocation; false, and nothing is taken: there is not enough.
bool take(std::span<int> free, const Allocation& allocation);
// Returns the room of an allocation to `free`.
void release(std::span<int> free, const Allocation& allocation);

}  // namespace ffdl::cluster
