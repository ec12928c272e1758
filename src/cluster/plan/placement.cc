#include "cluster/plan/placement.h"

#include <algorithm>
#include <numeric>

namespace ffdl::cluster {
namespace {

size_t most_free(std::span<const int> free) {
  return static_cast<size_t>(std::max_element(free.begin(), free.end()) - free.begin());
}

// Returns the node with least room among those that hold all the workers; none: the one with most
// room.
size_t best_fit(std::span<const int> free, int workers) {
  size_t best = most_free(free);
  for (size_t node = 0; node < free.size(); ++node) {
    if (free[node] >= workers && free[node] < free[best]) best = node;
  }
  return best;
}

}  // namespace

int workers_of(const Allocation& allocation) {
  int workers = 0;
  for (const Place& share : allocation) workers += share.workers;
  return workers;
}

Allocation place(std::span<int> free, int workers, PlacementRule rule) {
  Allocation allocation;
  if (std::accumulate(free.begin(), free.end(), 0) < workers) return allocation;
  while (workers > 0) {
    const size_t node = rule == PlacementRule::kPack ? best_fit(free, workers) : most_free(free);
    const int taken = rule == PlacementRule::kSpread ? 1 : std::min(workers, free[node]);
    free[node] -= taken;
    workers -= taken;
    const auto same = std::find_if(allocation.begin(), allocation.end(), [&](const Place& share) {
      return share.node == static_cast<int>(node);
    });
    if (same != allocation.end()) {
      same->workers += taken;
    } else {
      allocation.push_back({static_cast<int>(node), taken});
    }
  }
  return allocation;
}

std::vector<int> packed(int workers, int per_node) {
  std::vector<int> placement(static_cast<size_t>(workers / per_node), per_node);
  if (workers % per_node > 0) placement.push_back(workers % per_node);
  return placement;
}

bool take(std::span<int> free, const Allocation& allocation) {
  const bool is_free = std::all_of(allocation.begin(), allocation.end(), [&](const Place& share) {
    return free[static_cast<size_t>(share.node)] >= share.workers;
  });
  if (!is_free) return false;
  for (const Place& share : allocation) free[static_cast<size_t>(share.node)] -= share.workers;
  return true;
}

void release(std::span<int> free, const Allocation& allocation) {
  for (const Place& share : allocation) free[static_cast<size_t>(share.node)] += share.workers;
}

}  // namespace ffdl::cluster
