#include "cluster/plan/find_places.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace ffdl::cluster {
namespace {

int workers_on(const std::vector<Place>& places, int node) {
  int workers = 0;
  for (const Place& place : places) workers += place.node == node ? place.workers : 0;
  return workers;
}

// Returns true if the places satisfy the gangs and `room` is the remaining room.
bool are_in_order(std::span<const Gang> gangs, std::vector<int> before, const FoundPlaces& found,
                  const std::vector<int>& room) {
  for (size_t i = 0; i < gangs.size(); ++i) {
    int workers = 0;
    for (const Place& held : gangs[i].held) {
      if (workers_on(found.of[i], held.node) < held.workers) return false;
    }
    for (const Place& place : found.of[i]) {
      const auto node = static_cast<size_t>(place.node);
      if (!gangs[i].most.empty() && place.workers > gangs[i].most[node]) return false;
      before[node] -= place.workers;
      workers += place.workers;
      if (place.workers < 1) return false;
      if (gangs[i].per_node_max > 0 && place.workers > gangs[i].per_node_max) return false;
    }
    if (workers != gangs[i].workers) return false;
    const auto nodes = static_cast<int>(found.of[i].size());
    if (gangs[i].nodes_max > 0 && nodes > gangs[i].nodes_max) return false;
  }
  return before == room && *std::min_element(room.begin(), room.end()) >= 0;
}

TEST(FindPlaces, Table) {
  const struct {
    const char* what;
    std::vector<Gang> gangs;
    std::vector<int> room;
    Places outcome;
    size_t blocked;
  } rows[] = {
      {"nobody", {}, {4}, Places::kFound, 0},
      {"a whole node each", {{4, 1, 0}, {4, 1, 0}}, {4, 4}, Places::kFound, 0},
      {"three of three do not fill two fours", {{3, 1}, {3, 1}, {2, 1}}, {4, 4}, Places::kNone, 3},
      {"but they do if one may be cut", {{3, 1}, {3, 1}, {2, 2}}, {4, 4}, Places::kFound, 0},
      {"apart", {{3, 0, 1}}, {4, 4}, Places::kNone, 1},
      {"apart, on three", {{3, 0, 1}, {3, 0, 1}}, {2, 2, 2}, Places::kFound, 0},
      {"the greedy way is a dead end",
       {{3, 1}, {3, 1}, {2, 1}, {2, 1}, {2, 1}},
       {6, 6},
       Places::kFound,
       0},
      {"two and two of one and one", {{2, 0, 1}, {2, 0, 1}, {2, 1}}, {3, 2, 1}, Places::kFound, 0},
      {"beside what it holds", {{3, 1, 0, {{1, 2}}}}, {4, 3}, Places::kFound, 0},
      {"not beside what it holds", {{4, 1, 0, {{1, 2}}}}, {4, 3}, Places::kNone, 1},
      {"it holds too much for itself", {{4, 1, 0, {{0, 1}, {1, 2}}}}, {4, 3}, Places::kNone, 1},
      {"others hold too much for the node",
       {{1, 0, 0}, {2, 0, 0, {{0, 2}}}, {2, 0, 0, {{0, 2}}}},
       {3, 3},
       Places::kNone,
       3},
      {"where it may lie", {{3, 0, 0, {}, {0, 2, 1}}}, {4, 4, 4}, Places::kFound, 0},
      {"and no more there", {{4, 0, 0, {}, {0, 2, 1}}}, {4, 4, 4}, Places::kNone, 1},
  };
  for (const auto& row : rows) {
    std::vector<int> room = row.room;
    const FoundPlaces found = find_places(row.gangs, room, 1000);
    EXPECT_EQ(found.outcome, row.outcome) << row.what;
    if (found.outcome == Places::kFound) {
      EXPECT_TRUE(are_in_order(row.gangs, row.room, found, room)) << row.what;
    } else {
      EXPECT_EQ(found.blocked, row.blocked) << row.what;
      EXPECT_EQ(room, row.room) << row.what;
    }
  }
}

TEST(FindPlaces, SaysSoWhereItGaveUp) {
  std::vector<Gang> gangs(9, Gang{3, 1, 0});  // 8 of them fill 8 nodes of 5
  std::vector<int> room(8, 5);
  EXPECT_EQ(find_places(gangs, room, 5).outcome, Places::kUnknown);
  EXPECT_EQ(find_places(gangs, room, 10'000'000).outcome, Places::kNone);
}

// Tries all ways to put gangs on nodes, one worker after the other.
bool can_be_placed(std::span<const Gang> gangs, std::vector<int>& room, size_t gang, size_t node,
                   int left, int nodes_used) {
  if (gang == gangs.size()) return true;
  const Gang& one = gangs[gang];
  if (left == 0) {
    for (const Place& held : one.held) {  // beyond the last node that was filled
      if (static_cast<size_t>(held.node) >= node) return false;
    }
    const int next = gang + 1 < gangs.size() ? gangs[gang + 1].workers : 0;
    return can_be_placed(gangs, room, gang + 1, 0, next, 0);
  }
  if (node == room.size()) return false;
  for (int taken = workers_on(one.held, static_cast<int>(node));
       taken <= std::min(left, room[node]); ++taken) {
    if (one.per_node_max > 0 && taken > one.per_node_max) break;
    if (!one.most.empty() && taken > one.most[node]) break;
    const int used = nodes_used + (taken > 0 ? 1 : 0);
    if (one.nodes_max > 0 && used > one.nodes_max) break;
    room[node] -= taken;
    const bool done = can_be_placed(gangs, room, gang, node + 1, left - taken, used);
    room[node] += taken;
    if (done) return true;
  }
  return false;
}

TEST(FindPlaces, FindsThemWheneverThereAreAny) {
  std::mt19937 random(1);
  const auto draw = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  int found_some = 0, found_none = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<int> room(static_cast<size_t>(draw(1, 4)));
    for (int& one : room) one = draw(0, 5);
    std::vector<Gang> gangs(static_cast<size_t>(draw(1, 4)));
    for (Gang& gang : gangs) gang = {draw(1, 6), draw(0, 2), draw(0, 3)};
    if (round % 2 == 1) {  // some gangs hold places already or are excluded from nodes
      for (Gang& gang : gangs) {
        const int node = draw(0, static_cast<int>(room.size()) - 1);
        if (draw(0, 2) == 0) gang.held = {{node, draw(1, gang.workers)}};
        if (draw(0, 2) > 0) continue;
        for (size_t i = 0; i < room.size(); ++i) gang.most.push_back(draw(0, 4));
      }
    }
    std::vector<int> copy = room;
    const bool possible = can_be_placed(gangs, copy, 0, 0, gangs[0].workers, 0);
    std::vector<int> left = room;
    const FoundPlaces found = find_places(gangs, left, 1'000'000);
    ASSERT_EQ(found.outcome, possible ? Places::kFound : Places::kNone) << "round " << round;
    if (possible) {
      ASSERT_TRUE(are_in_order(gangs, room, found, left)) << "round " << round;
    } else {
      std::vector<int> again = room;
      const auto blocked = std::span(gangs).first(found.blocked);
      for (size_t i = found.blocked; i < gangs.size(); ++i) {
        ASSERT_TRUE(gangs[i].held.empty()) << "round " << round;
      }
      ASSERT_FALSE(can_be_placed(blocked, again, 0, 0, gangs[0].workers, 0)) << "round " << round;
    }
    ++(possible ? found_some : found_none);
  }
  EXPECT_GT(found_some, 500);
  EXPECT_GT(found_none, 500);
}

TEST(FindPlaces, ManyPiecesAreNoDangerToTheStack) {
  std::vector<Gang> gangs(1, Gang{200'000, 0, 1});
  std::vector<int> room(200'000, 1);
  EXPECT_EQ(find_places(gangs, room, INT32_MAX).outcome, Places::kUnknown);
}

TEST(FillPlaces, TakesWholeNodesAndTheTightestRest) {
  std::vector<int> room = {4, 3, 4, 2};
  EXPECT_EQ(fill_places(6, room), (std::vector<Place>{{0, 4}, {3, 2}}));
  EXPECT_EQ(room, (std::vector{0, 3, 4, 0}));
  EXPECT_EQ(fill_places(3, room), (std::vector<Place>{{1, 3}}));
}

TEST(CouldFit, LooksAtOneGangAlone) {
  EXPECT_TRUE(could_fit({4, 1, 0}, std::vector{2, 4}));
  EXPECT_FALSE(could_fit({5, 1, 0}, std::vector{2, 4}));
  EXPECT_TRUE(could_fit({5, 2, 0}, std::vector{2, 1, 4}));
  EXPECT_FALSE(could_fit({5, 0, 1}, std::vector{2, 1, 4}));
  EXPECT_TRUE(could_fit({4, 2, 0, {{1, 1}}}, std::vector{2, 1, 4}));
  EXPECT_FALSE(could_fit({6, 2, 0, {{1, 1}}}, std::vector{2, 1, 4}));
  EXPECT_FALSE(could_fit({3, 0, 1, {{0, 2}}}, std::vector{2, 1, 4}));
  EXPECT_TRUE(could_fit({3, 0, 0, {}, {1, 1, 1}}, std::vector{2, 1, 4}));
  EXPECT_FALSE(could_fit({4, 0, 0, {}, {1, 1, 1}}, std::vector{2, 1, 4}));
}

TEST(GangOf, WhoMayNotMoveStaysWhereItIs) {
  const std::vector nodes = {4, 4, 1};
  PlacedRequest job{.name = "a", .current_nodes = {{0, 2}, {2, 2}}, .may_move = false};
  const auto gang = [&](int workers) { return gang_of(job, {workers, 1.0}, nodes); };
  // The third node has room for only one worker.
  EXPECT_EQ(gang(4).held, (std::vector<Place>{{0, 2}, {2, 1}}));
  EXPECT_TRUE(gang(4).most.empty());
  EXPECT_TRUE(gang(2).held.empty());
  EXPECT_EQ(gang(2).most, (std::vector{2, 0, 1}));
  job.may_move = true;
  EXPECT_TRUE(gang(4).held.empty());
  EXPECT_TRUE(gang(2).most.empty());
  job.only_nodes = {1};
  EXPECT_EQ(gang(2).most, (std::vector{0, 4, 0}));
}

TEST(SmallestSize, IsTheLeastDemandingOneThatFits) {
  PlacedRequest job{.name = "a", .sizes = {{2, 1.9, 0, 0, 1}, {2, 1.2}, {1, 1, 0, 0, 0, 0}}};
  EXPECT_EQ(smallest_size(job, std::vector{1, 1}), 2);
  job.sizes.pop_back();
  EXPECT_EQ(smallest_size(job, std::vector{1, 1}), 1);
  job.sizes.pop_back();
  EXPECT_EQ(smallest_size(job, std::vector{1, 1}), -1);
  EXPECT_EQ(smallest_size(job, std::vector{1, 2}), 0);
}

}  // namespace
}  // namespace ffdl::cluster
