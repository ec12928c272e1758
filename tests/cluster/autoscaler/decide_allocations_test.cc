#include "cluster/autoscaler/decide_allocations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "support/status_matchers.h"

namespace ffdl::cluster {
namespace {

JobRequest request(const std::string& name, int least, int most) {
  JobRequest request{name};
  for (int k = least; k <= most; ++k) request.sizes.push_back({k, std::sqrt(k), 0});
  return request;
}

constexpr const char* kNode = "node";

Snapshot one_node(int workers, std::vector<JobFacts> jobs = {}) {
  return {.nodes = {{kNode, workers}}, .jobs = std::move(jobs)};
}

// Returns a job that runs the workers that it was granted, on one node; 0: none granted yet.
JobFacts job(const std::string& name, int workers, int least = 1, int most = 4) {
  JobFacts facts{.request = request(name, least, most), .wanted = workers, .running = workers};
  if (workers > 0) {
    facts.answer = JobAllocation{.name = name, .workers = workers, .nodes = {{kNode, workers}}};
  }
  return facts;
}

std::vector<int> workers_of(const AllocationDecision& decision) {
  std::vector<int> workers;
  for (const JobAllocation& one : decision.jobs) {
    workers.push_back(one.is_dropped ? -1 : one.workers);
  }
  return workers;
}

struct Row {
  const char* what;
  int workers;
  std::vector<JobFacts> jobs;
  std::vector<int> expected;  // -1: dropped
  bool is_settled = true;
  WhenFull when_full = WhenFull::kQueue;
};

TEST(DecideAllocations, Table) {
  JobFacts ending = job("a", 2);
  ending.running = 4;
  JobFacts told = job("a", 4);
  told.wanted = told.running = 0;
  JobFacts begins = job("a", 4);
  begins.running = 2;
  begins.is_starting = true;
  JobFacts behind = job("a", 4);
  behind.wanted = behind.running = 2;
  JobFacts dropped = job("b", 0);
  dropped.answer = JobAllocation{.name = "b", .is_dropped = true, .reason = "full"};
  JobFacts away = job("a", 3);
  away.is_away = true;
  away.request.sizes.clear();
  const Row rows[] = {
      {"who is away keeps what it has", 4, {away, job("b", 0)}, {3, 1}},
      {"arrival on a free cluster", 4, {job("a", 0)}, {4}},
      {"arrival: first the other gives back", 4, {job("a", 4), job("b", 0)}, {2, 0}, false},
      {"whose workers end still", 4, {ending, job("b", 0)}, {2, 0}, false},
      {"and have ended", 4, {job("a", 2), job("b", 0)}, {2, 2}},
      {"one that was told and has not begun is not made smaller",
       4,
       {told, job("b", 0)},
       {4, 0},
       false},
      {"nor one that still begins", 4, {begins, job("b", 0)}, {4, 0}, false},
      {"nor one that was not asked yet", 4, {behind, job("b", 0)}, {4, 0}, false},
      {"completion: the rest grows", 4, {job("a", 2)}, {4}},
      {"no flapping: 5 of 6 are as good as they were", 5, {job("a", 3), job("b", 2)}, {3, 2}},
      {"a node more", 8, {job("a", 2), job("b", 2)}, {4, 4}},
      {"a node fewer", 2, {job("a", 2), job("b", 2)}, {1, 1}},
      {"too few for those who run", 1, {job("a", 2), job("b", 2), job("c", 0)}, {1, 1, 0}},
      {"the queue", 2, {job("a", 1), job("b", 1), job("c", 0)}, {1, 1, 0}},
      {"a drop", 2, {job("a", 1), job("b", 1), job("c", 0)}, {1, 1, -1}, true, WhenFull::kDrop},
      {"who was dropped stays so", 4, {job("a", 1), dropped}, {4, -1}},
      {"bounds", 8, {job("a", 0, 2, 3)}, {3}},
      {"nobody", 3, {}, {}},
  };
  for (const Row& row : rows) {
    const auto decision =
        decide_allocations(one_node(row.workers, row.jobs), {.when_full = row.when_full});
    ASSERT_TRUE(decision.ok()) << row.what;
    EXPECT_EQ(workers_of(*decision), row.expected) << row.what;
    EXPECT_EQ(decision->is_settled, row.is_settled) << row.what;
  }
}

TEST(DecideAllocations, WhatAJobHasShownCountsMoreThanWhatItSaid) {
  JobFacts a = job("a", 2), b = job("b", 2);  // both declared the square root
  const auto decide = [&] { return workers_of(*decide_allocations(one_node(4, {a, b}), {})); };
  EXPECT_EQ(decide(), (std::vector{2, 2}));
  a.speeds = {{1, 1, 64, 100, 1.0}, {2, 1, 64, 100, 0.99}};  // a second worker gains it nothing
  EXPECT_EQ(decide(), (std::vector{1, 2}));  // b grows once a has released its worker
  a.running = a.wanted = 1;
  a.answer->workers = 1;
  a.answer->nodes = {{kNode, 1}};
  EXPECT_EQ(decide(), (std::vector{1, 3}));
  const auto decision = decide_allocations(one_node(4, {a, b}), {});
  EXPECT_NE(decision->jobs[0].reason.find("+- 5 %"), std::string::npos) << decision->jobs[0].reason;
}

TEST(DecideAllocations, ASwitchMustPayWithinTheHorizon) {
  JobFacts a = job("a", 1, 1, 2);
  a.request.sizes[1].value = 1.1;  // 10 % more speed by a second worker
  const Snapshot snapshot = one_node(2, {a});
  using std::chrono::seconds;
  const auto grows = [&](Duration cost, Duration horizon) {
    return decide_allocations(snapshot, {.switch_cost = cost, .horizon = horizon})
               ->jobs[0]
               .workers == 2;
  };
  EXPECT_TRUE(grows(seconds(1), seconds(300)));
  EXPECT_FALSE(grows(seconds(40), seconds(300)));
  EXPECT_TRUE(grows(seconds(40), seconds(500)));
}

std::string places_of(const AllocationDecision& decision) {
  std::string text;
  for (const JobAllocation& one : decision.jobs) {
    text += text.empty() ? "" : " | ";
    for (const NodeWorkers& place : one.nodes) {
      text += std::to_string(place.workers) + place.node;
    }
  }
  return text;
}

TEST(DecideAllocations, KnowsTheBoundariesOfNodes) {
  const auto on = [](JobFacts facts, std::vector<NodeWorkers> places) {
    facts.answer->nodes = std::move(places);
    return facts;
  };
  const auto of = [](JobFacts facts, const char* node) {
    facts.request.only_nodes = {node};
    return facts;
  };
  const auto together = [](JobFacts facts) {
    for (SizeOption& size : facts.request.sizes) size.nodes_max = 1;
    return facts;
  };
  JobFacts away = on(job("away", 3), {{"x", 3}});
  away.is_away = true;
  JobFacts ending = on(job("a", 1), {{"x", 1}});
  ending.running = 3;  // two of them are about to end, on unknown nodes
  const struct {
    const char* what;
    std::vector<NodeWorkers> nodes;
    std::vector<JobFacts> jobs;
    const char* expected;
    bool is_settled = true;
  } rows[] = {
      {"each on its own node",
       {{"x", 4}, {"y", 2}},
       {of(job("a", 0), "y"), of(job("b", 0), "x")},
       "2y | 4x"},
      {"a node that is not there", {{"x", 4}}, {of(job("a", 0), "z")}, ""},
      {"together on one node",
       {{"x", 3}, {"y", 3}},
       {together(job("a", 0)), together(job("b", 0))},
       "3x | 3y"},
      {"it grows where it is", {{"x", 1}, {"y", 4}}, {together(on(job("a", 1), {{"y", 1}}))}, "4y"},
      {"beside those who stay",
       {{"x", 4}, {"y", 4}},
       {on(job("a", 2, 2, 2), {{"x", 1}, {"y", 1}}), together(job("b", 0))},
       "1x1y | 3x"},
      {"who is away keeps its node",
       {{"x", 4}, {"y", 1}},
       {away, together(job("b", 0))},
       "3x | 1x"},
      {"room on another node is of no use: it waits for the end of those on its own",
       {{"x", 4}, {"y", 4}},
       {on(job("a", 4), {{"x", 4}}), of(job("b", 0, 2, 2), "x")},
       "2x | ",
       false},
      {"who has given back there grows elsewhere",
       {{"x", 4}, {"y", 4}},
       {on(job("a", 2), {{"x", 2}}), of(on(job("b", 2, 2, 2), {{"x", 2}}), "x")},
       "2x2y | 2x"},
      {"whose workers end somewhere",
       {{"x", 2}, {"y", 2}},
       {ending, job("b", 0, 2, 2)},
       "1x | ",
       false},
      {"a smaller node", {{"x", 2}, {"y", 2}}, {on(job("a", 4), {{"x", 4}})}, "2x2y"},
      {"the same places, told again",
       {{"x", 2}, {"y", 2}},
       {on(job("a", 2, 2, 2), {{"y", 2}})},
       "2y"},
  };
  for (const auto& row : rows) {
    const auto decision = decide_allocations({.nodes = row.nodes, .jobs = row.jobs}, {});
    ASSERT_TRUE(decision.ok()) << row.what;
    EXPECT_EQ(places_of(*decision), row.expected) << row.what;
    EXPECT_EQ(decision->is_settled, row.is_settled) << row.what;
  }
}

// Simulates jobs that arrive, follow their allocations after a while and end, at random. Some of
// them run on one node only.
class RandomCluster {
 public:
  explicit RandomCluster(std::mt19937& random) : random_(random) {
    const int nodes = draw(1, 3);
    for (int node = 0; node < nodes; ++node) snapshot_.nodes.push_back({name_of(node), draw(1, 6)});
    options_.when_full = draw(0, 1) == 0 ? WhenFull::kQueue : WhenFull::kDrop;
  }

  // Simulates the events before a decision, and decides. A node never has more workers than it
  // offers, and an admitted job keeps at least its smallest size.
  void step(const std::string& name) {
    if (draw(0, 9) == 0) submit(name);
    for (size_t i = 0; i < snapshot_.jobs.size();) {
      obey(snapshot_.jobs[i]);
      if (snapshot_.jobs[i].running == 0 || draw(0, 29) > 0) {
        ++i;
        continue;
      }
      processes_.erase(snapshot_.jobs[i].request.name);
      snapshot_.jobs.erase(snapshot_.jobs.begin() + static_cast<ptrdiff_t>(i));
      ++ended;
    }
    const auto decision = decide_allocations(snapshot_, options_);
    ASSERT_OK(decision);
    std::map<std::string, int> held;
    for (size_t i = 0; i < snapshot_.jobs.size(); ++i) {
      tell(snapshot_.jobs[i], decision->jobs[i], held);
    }
    for (const NodeWorkers& node : snapshot_.nodes) {
      ASSERT_LE(held[node.node], node.workers);
    }
  }

  int ended = 0;
  int spread = 0;  // how often a job was granted workers on several nodes

 private:
  int draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  static std::string name_of(int node) { return std::string(1, static_cast<char>('a' + node)); }

  void submit(const std::string& name) {
    const int least = draw(1, 3);
    JobFacts& one = snapshot_.jobs.emplace_back(job(name, 0, least, least + draw(0, 5)));
    const auto nodes = static_cast<int>(snapshot_.nodes.size());
    if (draw(0, 1) == 0) one.request.only_nodes = {name_of(draw(0, nodes - 1))};
    const auto nodes_max = static_cast<int16_t>(draw(0, 1));
    for (SizeOption& size : one.request.sizes) size.nodes_max = nodes_max;
  }

  void obey(JobFacts& one) {
    if (one.wanted == 0 && one.granted() > 0 && draw(0, 2) == 0) one.wanted = one.granted();
    if (one.wanted == one.granted() && draw(0, 2) == 0) {  // it reaches its allocation
      auto& here = processes_[one.request.name];
      here.clear();
      if (one.answer) {
        for (const NodeWorkers& place : one.answer->nodes) here[place.node] = place.workers;
      }
      one.running = one.wanted;
    }
    one.is_starting = one.running < one.wanted;
  }

  // Checks and stores the allocation. Adds the most workers that the job may have on each node: its
  // processes or its allocation.
  void tell(JobFacts& one, const JobAllocation& told, std::map<std::string, int>& held) {
    if (one.granted() > 0) {
      EXPECT_GE(told.workers, one.request.sizes.front().workers);
    }
    EXPECT_LE(told.workers, one.request.sizes.back().workers);
    std::map<std::string, int> most = processes_[one.request.name];
    int placed = 0;
    for (const NodeWorkers& place : told.nodes) {
      placed += place.workers;
      most[place.node] = std::max(most[place.node], place.workers);
      if (!one.request.only_nodes.empty()) {
        EXPECT_EQ(place.node, one.request.only_nodes.front());
      }
    }
    EXPECT_EQ(placed, told.workers);
    spread += told.nodes.size() > 1 ? 1 : 0;
    for (const auto& [node, workers] : most) held[node] += workers;
    one.answer = told;
    // or it was killed before it read the allocation
    if (one.wanted > 0 && draw(0, 2) > 0) one.wanted = told.workers;
  }

  std::mt19937& random_;
  AutoscalerOptions options_;
  Snapshot snapshot_;
  std::map<std::string, std::map<std::string, int>> processes_;  // by job, then node
};

TEST(DecideAllocations, NeverGivesAWorkerTwice) {
  std::mt19937 random(1);
  int ended = 0, spread = 0;
  for (int round = 0; round < 100 && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    RandomCluster cluster(random);
    for (int step = 0; step < 100 && !HasFailure(); ++step) cluster.step(std::to_string(step));
    ended += cluster.ended;
    spread += cluster.spread;
  }
  EXPECT_GT(ended, 50);
  EXPECT_GT(spread, 50);
}

}  // namespace
}  // namespace ffdl::cluster
