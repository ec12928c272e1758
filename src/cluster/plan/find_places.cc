#include "cluster/plan/find_places.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "base/errors.h"
#include "cluster/plan/placement.h"

namespace ffdl::cluster {
namespace {

constexpr int kDepthMax = 2'000;  // pieces of gangs on nodes: any stack holds them

int workers_on(std::span<const Place> places, int node) {
  for (const Place& place : places) {
    if (place.node == node) return place.workers;
  }
  return 0;
}

// Returns the limit of further workers on a node, beside those that the gang keeps there.
int more_on(const Gang& gang, int node, int room) {
  const int held = workers_on(gang.held, node);
  if (gang.per_node_max > 0) room = std::min(room, gang.per_node_max - held);
  if (!gang.most.empty()) room = std::min(room, gang.most[static_cast<size_t>(node)] - held);
  return room;
}

// Returns true if the gang's kept places obey its limits, for any placement of the rest.
bool may_hold(const Gang& gang) {
  if (gang.nodes_max > 0 && gang.held.size() > static_cast<size_t>(gang.nodes_max)) return false;
  return std::all_of(gang.held.begin(), gang.held.end(), [&](const Place& place) {
    return more_on(gang, place.node, place.workers) >= 0;
  });
}

Status check_places_of(const PlacedRequest& job) {
  for (const Place& place : job.current_nodes) {
    const auto same = std::count_if(job.current_nodes.begin(), job.current_nodes.end(),
                                    [&](const Place& other) { return other.node == place.node; });
    if (same == 1 && place.workers > 0) continue;
    return base::invalid_argument(
        "plan job '{}': a current node has {} workers, and is listed {} times; list each node "
        "once, with 1 worker or more",
        job.name, place.workers, same);
  }
  return {};
}

Status check_sizes_of(const PlacedRequest& job) {
  if (job.sizes.empty() && !job.may_wait) {
    return base::invalid_argument(
        "plan job '{}': it has no size; give at least one, or let it wait", job.name);
  }
  for (const SizeOption& size : job.sizes) {
    if (size.workers >= 1 && size.nodes_max >= 0 && size.per_node_max >= 0) continue;
    return base::invalid_argument(
        "plan job '{}': a size has {} workers, nodes_max {} and per_node_max {}; give 1 worker or "
        "more, and limits from 1 on, or 0 for no limit",
        job.name, size.workers, size.nodes_max, size.per_node_max);
  }
  for (const SizeOption& size : job.sizes) {
    if (std::isfinite(size.value)) continue;
    return base::invalid_argument(
        "plan job '{}': {} workers are worth {}; leave impossible sizes out", job.name,
        size.workers, size.value);
  }
  return {};
}

class Search {
 public:
  Search(std::span<const Gang> gangs, std::vector<int>& room, int steps_max)
      : gangs_(gangs), room_(room), steps_left_(steps_max), places_(gangs.size()) {
    name_kinds();
  }

  FoundPlaces run() {
    FoundPlaces found;
    if (hold() && place_from(0)) {
      found.outcome = Places::kFound;
      found.of = std::move(places_);
      for (auto& places : found.of) merge(places);
      return found;
    }
    for (const Gang& gang : gangs_) {
      for (const Place& place : gang.held) room_of(place.node) += place.workers;
    }
    found.outcome = steps_left_ > 0 ? Places::kNone : Places::kUnknown;
    found.blocked = farthest_ + 1;
    return found;
  }

 private:
  // Numbers the kinds of nodes. Nodes are of one kind if every gang keeps, and may have, as many
  // workers on each.
  void name_kinds() {
    kinds_.assign(room_.size(), 0);
    const bool all_alike = std::all_of(gangs_.begin(), gangs_.end(), [](const Gang& gang) {
      return gang.held.empty() && gang.most.empty();
    });
    if (all_alike) return;
    std::map<std::vector<int>, int> names;
    for (size_t node = 0; node < room_.size(); ++node) {
      std::vector<int> kind;
      for (const Gang& gang : gangs_) {
        kind.push_back(workers_on(gang.held, static_cast<int>(node)));
        kind.push_back(gang.most.empty() ? -1 : gang.most[node]);
      }
      kinds_[node] = names.try_emplace(kind, static_cast<int>(names.size())).first->second;
    }
  }

  // Takes the room of kept places. Returns false if they do not fit.
  bool hold() {
    bool fits = true;
    for (size_t gang = 0; gang < gangs_.size(); ++gang) {
      if (gangs_[gang].held.empty()) continue;
      farthest_ = gang;  // a gang that keeps places blocks all
      places_[gang] = gangs_[gang].held;
      fits = fits && may_hold(gangs_[gang]);
      for (const Place& place : gangs_[gang].held) room_of(place.node) -= place.workers;
    }
    return fits && std::all_of(room_.begin(), room_.end(), [](int left) { return left >= 0; });
  }

  bool place_from(size_t gang) {
    if (gang == gangs_.size()) return true;
    farthest_ = std::max(farthest_, gang);
    std::vector<int> order(room_.size());
    std::iota(order.begin(), order.end(), 0);
    const int whole = gangs_[gang].workers - workers_of(gangs_[gang].held);
    // Kept nodes first, then the tightest node that holds all, then those that hold most. Equal
    // nodes are neighbours.
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      if (is_held(gang, a) != is_held(gang, b)) return is_held(gang, a);
      const int left = room_of(a), right = room_of(b);
      if ((left >= whole) != (right >= whole)) return left >= whole;
      if (left != right) return left >= whole ? left < right : left > right;
      return kind_of(a) < kind_of(b);
    });
    return spread(gang, order, 0, whole, whole);
  }

  // Takes `left` more workers of a gang from the nodes of `order` from `next` on. On nodes of one
  // kind it takes no more than on the one before, `before`: other ways are equivalent.
  bool spread(size_t gang, const std::vector<int>& order, size_t next, int left, int before) {
    if (left == 0) return place_from(gang + 1);
    const Gang& one = gangs_[gang];
    auto& places = places_[gang];
    const bool is_wide = one.nodes_max > 0 && nodes_of(gang) >= one.nodes_max;
    if (is_wide && one.held.empty()) return false;
    if (++depth_ > kDepthMax) steps_left_ = 0;
    for (size_t at = next; at < order.size() && --steps_left_ > 0; ++at) {
      const int node = order[at];
      if (is_wide && !is_held(gang, node)) break;  // kept nodes come first
      const int room = room_of(node);
      int most = std::min(more_on(one, node, room), left);
      const bool is_like_last = at > 0 && kind_of(order[at - 1]) == kind_of(node) &&
                                original_room(gang, order[at - 1]) == room;
      if (is_like_last) {
        if (at > next) continue;  // it took nothing there
        most = std::min(most, before);
      }
      for (int taken = most; taken > 0; --taken) {
        places.push_back({node, taken});
        room_of(node) -= taken;
        if (spread(gang, order, at + 1, left - taken, taken)) return true;
        room_of(node) += taken;
        places.pop_back();
        if (steps_left_ <= 0) return false;
      }
    }
    --depth_;
    return false;
  }

  // Returns the room of a node before this gang took more from it.
  int original_room(size_t gang, int node) {
    const std::span more = std::span(places_[gang]).subspan(gangs_[gang].held.size());
    return room_of(node) + workers_on(more, node);
  }

  // Returns the number of nodes that the gang has so far.
  int nodes_of(size_t gang) const {
    size_t nodes = gangs_[gang].held.size();
    for (size_t i = nodes; i < places_[gang].size(); ++i) {
      nodes += is_held(gang, places_[gang][i].node) ? 0 : 1;
    }
    return static_cast<int>(nodes);
  }

  bool is_held(size_t gang, int node) const { return workers_on(gangs_[gang].held, node) > 0; }
  int& room_of(int node) { return room_[static_cast<size_t>(node)]; }
  int kind_of(int node) const { return kinds_[static_cast<size_t>(node)]; }

  // Merges kept and further places on one node.
  static void merge(std::vector<Place>& places) {
    for (size_t i = 0; i < places.size(); ++i) {
      for (size_t j = places.size() - 1; j > i; --j) {
        if (places[j].node != places[i].node) continue;
        places[i].workers += places[j].workers;
        places.erase(places.begin() + static_cast<ptrdiff_t>(j));
      }
    }
  }

  const std::span<const Gang> gangs_;
  std::vector<int>& room_;
  int steps_left_;
  int depth_ = 0;
  size_t farthest_ = 0;
  std::vector<int> kinds_;
  // The kept places of each gang, then the further ones.
  std::vector<std::vector<Place>> places_;
};

}  // namespace

Status check_gangs(std::span<const PlacedRequest> jobs, std::span<const int> nodes) {
  const int64_t workers = std::accumulate(nodes.begin(), nodes.end(), int64_t{0});
  if (workers > 1'000'000) {
    return base::invalid_argument("plan jobs: {} workers; at most 1000000 are possible", workers);
  }
  for (const PlacedRequest& job : jobs) {
    FFDL_RETURN_IF_ERROR(check_places_of(job));
    FFDL_RETURN_IF_ERROR(check_sizes_of(job));
  }
  return {};
}

Gang gang_of(const PlacedRequest& job, const SizeOption& size, std::span<const int> nodes) {
  Gang gang{size.workers, size.nodes_max, size.per_node_max};
  if (!job.only_nodes.empty()) {
    gang.most.assign(nodes.size(), 0);
    for (const int node : job.only_nodes) {
      gang.most[static_cast<size_t>(node)] = nodes[static_cast<size_t>(node)];
    }
  }
  if (job.may_move) return gang;
  std::vector<Place> now;  // places for which there still is room
  for (const Place& place : job.current_nodes) {
    const auto node = static_cast<size_t>(place.node);
    const int most = gang.most.empty() ? nodes[node] : gang.most[node];
    if (std::min(place.workers, most) > 0) {
      now.push_back({place.node, std::min(place.workers, most)});
    }
  }
  if (workers_of(now) <= size.workers) {
    gang.held = std::move(now);
    return gang;
  }
  gang.most.assign(nodes.size(), 0);
  for (const Place& place : now) gang.most[static_cast<size_t>(place.node)] = place.workers;
  return gang;
}

int smallest_size(const PlacedRequest& job, std::span<const int> nodes) {
  const auto key = [&](size_t i) {
    const SizeOption& size = job.sizes[i];
    return std::pair(size.workers, (size.nodes_max > 0 ? 1 : 0) + (size.per_node_max > 0 ? 1 : 0));
  };
  int smallest = -1;
  for (size_t i = 0; i < job.sizes.size(); ++i) {
    if (!could_fit(gang_of(job, job.sizes[i], nodes), nodes)) continue;
    if (smallest < 0 || key(i) < key(static_cast<size_t>(smallest))) smallest = static_cast<int>(i);
  }
  return smallest;
}

bool could_fit(const Gang& gang, std::span<const int> room) {
  if (!may_hold(gang)) return false;
  std::vector<int> most;  // room on nodes without kept places
  int64_t fits = 0;
  for (size_t i = 0; i < room.size(); ++i) {
    const auto node = static_cast<int>(i);
    const int held = workers_on(gang.held, node);
    if (held > room[i]) return false;
    const int more = more_on(gang, node, room[i] - held);
    if (held > 0) fits += held + more;
    if (held == 0) most.push_back(more);
  }
  std::sort(most.begin(), most.end(), std::greater<>());
  if (gang.nodes_max > 0) {
    most.resize(std::min(most.size(), static_cast<size_t>(gang.nodes_max) - gang.held.size()));
  }
  return std::accumulate(most.begin(), most.end(), fits) >= gang.workers;
}

std::vector<Place> fill_places(int workers, std::vector<int>& room) {
  std::vector<Place> places;
  while (workers > 0) {
    // The tightest node that holds all, or the one that holds most.
    size_t best = 0;
    for (size_t node = 1; node < room.size(); ++node) {
      const bool holds = room[node] >= workers, best_holds = room[best] >= workers;
      const bool is_better =
          holds && best_holds ? room[node] < room[best] : room[node] > room[best];
      if (is_better) best = node;
    }
    const int taken = std::min(workers, room[best]);
    room[best] -= taken;
    workers -= taken;
    places.push_back({static_cast<int>(best), taken});
  }
  return places;
}

FoundPlaces find_places(std::span<const Gang> gangs, std::vector<int>& room, int steps_max) {
  return Search(gangs, room, steps_max).run();
}

}  // namespace ffdl::cluster
