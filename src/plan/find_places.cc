#include "plan/find_places.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace ffdl::plan {
namespace {

constexpr int kDepthMax = 10'000;  // pieces of gangs on nodes: what the stack holds easily

int most_on(const Gang& gang, int room) {
  return gang.per_node_max > 0 ? std::min(gang.per_node_max, room) : room;
}

class Search {
 public:
  Search(std::span<const Gang> gangs, std::vector<int>& room, int steps_max)
      : gangs_(gangs), room_(room), steps_left_(steps_max), places_(gangs.size()) {}

  FoundPlaces run() {
    FoundPlaces found;
    if (place_from(0)) {
      found.outcome = Places::kFound;
      found.of = std::move(places_);
      return found;
    }
    found.outcome = steps_left_ > 0 ? Places::kNone : Places::kUnknown;
    found.blocked = farthest_ + 1;
    return found;
  }

 private:
  bool place_from(size_t gang) {
    if (gang == gangs_.size()) return true;
    farthest_ = std::max(farthest_, gang);
    std::vector<int> order(room_.size());
    std::iota(order.begin(), order.end(), 0);
    const int whole = gangs_[gang].workers;
    // The tightest node that holds all, then those that hold most. Equal ones are neighbours.
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      const int left = room_of(a), right = room_of(b);
      if ((left >= whole) != (right >= whole)) return left >= whole;
      return left >= whole ? left < right : left > right;
    });
    return spread(gang, order, 0, whole, whole);
  }

  // Takes `left` more workers of a gang from the nodes of `order` from `next` on. On nodes of equal
  // room it takes no more than on the one before, `before`: the other ways are the same.
  bool spread(size_t gang, const std::vector<int>& order, size_t next, int left, int before) {
    if (left == 0) return place_from(gang + 1);
    const Gang& one = gangs_[gang];
    auto& places = places_[gang];
    if (one.nodes_max > 0 && static_cast<int>(places.size()) == one.nodes_max) return false;
    if (++depth_ > kDepthMax) steps_left_ = 0;
    for (size_t at = next; at < order.size() && --steps_left_ > 0; ++at) {
      const int node = order[at];
      const int room = room_of(node);
      int most = std::min(most_on(one, room), left);
      if (at > 0 && original_room(gang, order[at - 1]) == room) {
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

  // The room of a node before this gang took from it.
  int original_room(size_t gang, int node) {
    int room = room_of(node);
    for (const NodeWorkers& place : places_[gang]) {
      if (place.node == node) room += place.workers;
    }
    return room;
  }
  int& room_of(int node) { return room_[static_cast<size_t>(node)]; }

  const std::span<const Gang> gangs_;
  std::vector<int>& room_;
  int steps_left_;
  int depth_ = 0;
  size_t farthest_ = 0;
  std::vector<std::vector<NodeWorkers>> places_;
};

}  // namespace

bool could_fit(const Gang& gang, std::span<const int> room) {
  std::vector<int> most;
  for (const int one : room) most.push_back(most_on(gang, one));
  std::sort(most.begin(), most.end(), std::greater<>());
  if (gang.nodes_max > 0 && most.size() > static_cast<size_t>(gang.nodes_max)) {
    most.resize(static_cast<size_t>(gang.nodes_max));
  }
  return std::accumulate(most.begin(), most.end(), int64_t{0}) >= gang.workers;
}

std::vector<NodeWorkers> fill_places(int workers, std::vector<int>& room) {
  std::vector<NodeWorkers> places;
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

}  // namespace ffdl::plan
