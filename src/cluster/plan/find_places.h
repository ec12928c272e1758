#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cluster/plan/placed_request.h"

namespace ffdl::cluster {

// The workers of one job, with limits on their placement; 0: no limit.
struct Gang {
  int workers = 0;
  int nodes_max = 0;
  int per_node_max = 0;
  std::vector<Place> held{};  // places that some of them keep in any case; each node once
  std::vector<int> most{};    // limit on each node; empty: none
};

// Checks requests. Errors: kInvalidArgument (a size that makes no sense, a job on one node twice, a
// job without a size that may not wait, more than 1,000,000 workers).
Status check_gangs(std::span<const PlacedRequest> jobs, std::span<const int> nodes);

// Returns the gang of a job of such a size, on nodes with such room, including the places that it
// keeps or may keep.
Gang gang_of(const PlacedRequest& job, const SizeOption& size, std::span<const int> nodes);

// Returns the index of the smallest size that would fit on these nodes if the job were alone; of
// equal ones that with the fewest demands. -1: there is none.
int smallest_size(const PlacedRequest& job, std::span<const int> nodes);

enum class Places { kFound, kNone, kUnknown };

struct FoundPlaces {
  Places outcome = Places::kUnknown;     // unknown: the steps were used up
  std::vector<std::vector<Place>> of{};  // each gang, if found
  // If there are none: the first `blocked` gangs already do not fit together, including those that
  // keep places.
  size_t blocked = 0;
};

// Returns true if a gang would fit on these nodes if it were alone.
bool could_fit(const Gang& gang, std::span<const int> room);

// Places workers without limits on as few nodes as possible. There must be room for them.
std::vector<Place> fill_places(int workers, std::vector<int>& room);

// Places all gangs at once: a search that tries full nodes and best fits first, and in the end
// every placement. `room` becomes the room that is left.
FoundPlaces find_places(std::span<const Gang> gangs, std::vector<int>& room, int steps_max);

}  // namespace ffdl::cluster
