#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ffdl/placed_plan.h"

namespace ffdl::plan {

// The workers of one job that must lie in a certain way; 0: no limit.
struct Gang {
  int workers = 0;
  int nodes_max = 0;
  int per_node_max = 0;
  std::vector<NodeWorkers> held{};  // where some of them lie in any case; each node once
  std::vector<int> most{};          // on each node; empty: no limit
};

// Errors: kInvalidArgument (a node or a size that makes no sense, a node that is not there, a job
// without a size that may not wait).
Status check_gangs(std::span<const JobRequest> jobs, std::span<const int> nodes);

// A job of such a size, on nodes of such a room: with what it holds and may hold.
Gang gang_of(const JobRequest& job, const SizeOption& size, std::span<const int> nodes);

// The index of the smallest size that could lie on these nodes if the job were alone, of equal ones
// of that which demands least: the job's gang. -1: there is none.
int smallest_size(const JobRequest& job, std::span<const int> nodes);

enum class Places { kFound, kNone, kUnknown };

struct FoundPlaces {
  Places outcome = Places::kUnknown;           // unknown: the steps were used up
  std::vector<std::vector<NodeWorkers>> of{};  // each gang, if found
  // If there are none: already the first so many gangs do not fit together, those included that
  // hold something.
  size_t blocked = 0;
};

// Whether a gang could lie on these nodes if it were alone.
bool could_fit(const Gang& gang, std::span<const int> room);

// Places for workers that may lie anywhere, on as few nodes as possible. There is room for them.
std::vector<NodeWorkers> fill_places(int workers, std::vector<int>& room);

// Places for all gangs at once: a search that tries full nodes and best fits first, and in the end
// everything. `room` is left with what is not taken.
FoundPlaces find_places(std::span<const Gang> gangs, std::vector<int>& room, int steps_max);

}  // namespace ffdl::plan
