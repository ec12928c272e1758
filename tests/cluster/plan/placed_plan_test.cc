#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "cluster/plan/find_places.h"
#include "cluster/plan/numbered_nodes.h"
#include "ffdl/cluster/job_planner.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using testing::at;
using testing::node_name;
using testing::nodes_of;
using testing::number_of;

SizeOption on_one_node(int workers, double value) {
  return {.workers = workers, .value = value, .nodes_max = 1};
}
SizeOption anywhere(int workers, double value) { return {.workers = workers, .value = value}; }

JobRequest named(std::string name, std::vector<SizeOption> sizes, bool may_wait = false) {
  return {.name = std::move(name), .sizes = std::move(sizes), .may_wait = may_wait};
}

std::vector<int> workers_of(const Plan& plan) {
  std::vector<int> workers;
  for (const JobAllocation& share : plan.jobs) workers.push_back(share.workers);
  return workers;
}

TEST(PlacedPlan, AJobIsCutOverNodesOnlyWhereThatIsWorthIt) {
  const std::vector<JobRequest> jobs = {
      named("a", {on_one_node(3, 2.9), anywhere(3, 2), anywhere(2, 1.9)}),
      named("b", {on_one_node(3, 2.9), anywhere(3, 2), anywhere(2, 1.9)}),
      named("c", {on_one_node(2, 1.95), anywhere(2, 1.2)})};
  ASSERT_OK_AND_ASSIGN(const Plan plan, plan_jobs(jobs, nodes_of({4, 4})));
  // Two jobs of three workers leave one worker on each node. Either c spans both nodes, or one of
  // the other jobs is smaller.
  EXPECT_TRUE(plan.is_best);
  EXPECT_DOUBLE_EQ(plan.total, 2.9 + 2.9 + 1.2);
  EXPECT_EQ(workers_of(plan), (std::vector{3, 3, 2}));
  EXPECT_EQ(plan.jobs[2].nodes, at({{0, 1}, {1, 1}}));
  EXPECT_EQ(explain(plan.jobs[2]),
            "c gets 2 workers, worth 1.2; it has no larger size; it has no smaller size; 1 on node "
            "0, 1 on node 1; if nodes had no boundaries it would have 2, worth 1.95");
  EXPECT_EQ(explain(plan.jobs[0]).find("boundaries"), std::string::npos);
}

TEST(PlacedPlan, WorkersThatMustLieApartDo) {
  JobRequest spread = named("spread", {{.workers = 2, .value = 1, .per_node_max = 1},
                                       {.workers = 3, .value = 2, .per_node_max = 1}});
  const auto plan = [&](const std::vector<int>& nodes) {
    return plan_jobs({{spread}}, nodes_of(nodes));
  };
  EXPECT_EQ(plan({8, 1, 1})->jobs[0].nodes, at({{0, 1}, {1, 1}, {2, 1}}));
  EXPECT_EQ(workers_of(*plan({8, 8})), (std::vector{2}));
  EXPECT_FALSE(plan({8})->feasible);
  EXPECT_EQ(plan({8})->reason, "job 'spread' does not fit on these nodes in any of its sizes");
}

TEST(PlacedPlan, AGangHasAllOrWaits) {
  const JobRequest gang = named("gang", {on_one_node(4, 4)}, true);
  const JobRequest other = named("other", {on_one_node(3, 3)});
  ASSERT_OK_AND_ASSIGN(const Plan plan, plan_jobs(std::vector{gang, other}, nodes_of({5, 2})));
  EXPECT_TRUE(plan.is_best);
  EXPECT_EQ(workers_of(plan), (std::vector{0, 3}));
  EXPECT_EQ(explain(plan.jobs[0]),
            "gang waits; 4 more would add 4; if nodes had no boundaries it would have 4, worth 4");
}

TEST(PlacedPlan, WhatDoesNotFitTogetherIsAnAnswer) {
  const std::vector<JobRequest> jobs(3, named("a", {on_one_node(3, 1)}));
  ASSERT_OK_AND_ASSIGN(const Plan plan, plan_jobs(jobs, nodes_of({5, 5})));
  EXPECT_FALSE(plan.feasible);
  EXPECT_EQ(plan.reason,
            "the jobs' sizes do not fit on these nodes together; let some wait, or demand less");
}

// Returns two jobs whose value is the square root of their workers, on two nodes.
std::vector<JobRequest> two_running(std::vector<NodeWorkers> a, std::vector<NodeWorkers> b) {
  std::vector<JobRequest> jobs(2);
  for (JobRequest& job : jobs) {
    for (int k = 1; k <= 4; ++k) job.sizes.push_back(anywhere(k, std::sqrt(k)));
    job.switch_cost = 0.01;
  }
  jobs[0].name = "a";
  jobs[0].current_nodes = std::move(a);
  jobs[1].name = "b";
  jobs[1].current_nodes = std::move(b);
  for (JobRequest& job : jobs) {
    for (const NodeWorkers& place : job.current_nodes) job.current_workers += place.workers;
  }
  return jobs;
}

TEST(PlacedPlan, WhoKeepsItsSizeStays) {
  // not as the plan would pack them
  const std::vector<NodeWorkers> a = at({{0, 1}, {1, 1}}), b = at({{1, 2}});
  std::vector<JobRequest> jobs = two_running(a, b);
  jobs[1].sizes.resize(2);
  const auto plan = plan_jobs(jobs, nodes_of({2, 3})).value();
  EXPECT_EQ(workers_of(plan), (std::vector{3, 2}));
  EXPECT_EQ(plan.jobs[1].nodes, b);
  jobs.push_back(named("whole", {on_one_node(2, 10)}));
  EXPECT_EQ(plan_jobs(jobs, nodes_of({3, 3}))->jobs[0].nodes, a) << "in nobody's way";
  jobs[0].sizes.resize(2);
  jobs[2].sizes = {on_one_node(3, 10)};
  const auto moved = plan_jobs(jobs, nodes_of({3, 4})).value();
  EXPECT_EQ(workers_of(moved), (std::vector{2, 2, 3})) << "who may move does where others need it";
  EXPECT_EQ(moved.jobs[2].nodes, at({{0, 3}}));
}

TEST(PlacedPlan, WhoMayNotMoveGrowsAndShrinksInItsPlace) {
  std::vector<JobRequest> jobs = two_running(at({{0, 1}, {1, 1}}), at({{1, 2}}));
  for (JobRequest& job : jobs) job.may_move = false;
  const auto grown = plan_jobs(jobs, nodes_of({4, 4})).value();
  EXPECT_EQ(workers_of(grown), (std::vector{4, 4}));
  for (const JobAllocation& share : grown.jobs) {
    for (const NodeWorkers& place : share.nodes) EXPECT_LE(place.workers, 4);
  }
  EXPECT_GE(grown.jobs[1].nodes.back().workers, 2);
  EXPECT_EQ(grown.jobs[1].nodes.back().node, node_name(1));
  const auto shrunk = plan_jobs(jobs, nodes_of({1, 1})).value();
  EXPECT_EQ(shrunk.jobs[0].nodes, at({{0, 1}}));
  EXPECT_EQ(shrunk.jobs[1].nodes, at({{1, 1}}));
  jobs.push_back(named("whole", {on_one_node(3, 10)}));
  const auto beside = plan_jobs(jobs, nodes_of({4, 4})).value();
  EXPECT_EQ(beside.jobs[2].nodes, at({{0, 3}})) << "around the others";
}

TEST(PlacedPlan, AJobOfOneNodeIsPlannedWithinIt) {
  std::vector<JobRequest> jobs = two_running({}, {});
  jobs.push_back(jobs[0]);
  jobs[0].only_nodes = jobs[1].only_nodes = {"east"};
  jobs[2].only_nodes = {"west"};
  const auto plan = plan_jobs(jobs, std::vector<NodeWorkers>{{"east", 3}, {"west", 2}}).value();
  EXPECT_TRUE(plan.is_best);
  EXPECT_EQ(plan.jobs[0].workers + plan.jobs[1].workers, 3);
  EXPECT_EQ(plan.jobs[2].nodes, (std::vector<NodeWorkers>{{"west", 2}}));
  EXPECT_NE(explain(plan.jobs[2]).find("; 2 on west"), std::string::npos);
}

// Each node is then a cluster of its own, and growing step by step is exact for such values.
TEST(PlacedPlan, ManyJobsOfOneNodeEachAreSharedOutWell) {
  std::vector<JobRequest> jobs;
  std::vector<int> nodes;
  double best = 0;
  for (int node = 0; node < 8; ++node) {
    std::vector<JobRequest> here;
    for (int i = 0; i <= node % 4; ++i) {
      JobRequest job = named(std::to_string(node) + "-" + std::to_string(i), {});
      for (int k = 1; k <= 8; ++k) job.sizes.push_back(anywhere(k, std::pow(k, 0.5 + 0.1 * i)));
      here.push_back(job);
      job.only_nodes = {node_name(node)};
      jobs.push_back(job);
    }
    nodes.push_back(5 + node % 3);
    best += plan_jobs(here, nodes_of({nodes.back()}))->total;
  }
  EXPECT_NEAR(plan_jobs(jobs, nodes_of(nodes))->total, best, 1e-9);
}

TEST(PlacedPlan, RefusesWhatMakesNoSense) {
  EXPECT_FAILS(plan_jobs({}, nodes_of({-1})), StatusCode::kInvalidArgument, "0 or more");
  EXPECT_FAILS(plan_jobs(std::vector{named("a", {on_one_node(0, 1)})}, nodes_of({4})),
               StatusCode::kInvalidArgument, "job 'a'");
  EXPECT_FAILS(plan_jobs(std::vector{named("a", {})}, nodes_of({4})), StatusCode::kInvalidArgument,
               "it has no size");
  EXPECT_FAILS(plan_jobs({}, std::vector<NodeWorkers>{{"a", 1}, {"a", 1}}),
               StatusCode::kInvalidArgument, "node 'a' is listed twice");
  EXPECT_FAILS(plan_jobs({}, nodes_of({4}), {.plans_max = 0}), StatusCode::kInvalidArgument,
               "at least 1");
  EXPECT_FAILS(plan_jobs(std::vector{named("a", {on_one_node(1, NAN)})}, nodes_of({4})),
               StatusCode::kInvalidArgument, "worth nan");
  const auto refused = [](const JobRequest& job, const char* what) {
    EXPECT_FAILS(plan_jobs(std::vector{job}, nodes_of({4})), StatusCode::kInvalidArgument, what);
  };
  JobRequest job = named("a", {anywhere(1, 1)});
  job.only_nodes = {node_name(1)};
  refused(job, "node 'node 1' is not among the 1 nodes");
  job.only_nodes = {};
  job.current_nodes = at({{1, 1}});
  refused(job, "node 'node 1' is not among");
  job.current_nodes = at({{0, 1}, {0, 1}});
  refused(job, "list each node once");
}

struct Instance {
  std::vector<JobRequest> jobs;
  std::vector<int> nodes;
};

Instance draw_instance(std::mt19937& random) {
  const auto draw = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  Instance instance;
  instance.nodes.assign(static_cast<size_t>(draw(2, 3)), 3);
  instance.nodes[0] = draw(2, 5);
  const int jobs = draw(3, 4);
  for (int i = 0; i < jobs; ++i) {
    JobRequest one = named(std::to_string(i), {}, draw(0, 3) > 0);
    const int sizes = draw(1, 3);
    for (int size = 0; size < sizes; ++size) {
      const int workers = draw(1, 4);
      one.sizes.push_back({.workers = workers,
                           .value = workers * draw(4, 8) / 8.0,
                           .nodes_max = static_cast<int16_t>(draw(0, 3) > 0 ? 1 : 0),
                           .per_node_max = static_cast<int16_t>(std::max(draw(-4, 2), 0))});
    }
    one.switch_cost = draw(0, 1) * 0.25;
    one.current_workers = draw(0, 3);
    const int node = draw(0, static_cast<int>(instance.nodes.size()) - 1);
    if (one.current_workers > 0 && draw(0, 2) == 0) {
      one.current_nodes = at({{node, one.current_workers}});
      one.may_move = draw(0, 1) == 0;
    }
    if (draw(0, 4) == 0) one.only_nodes = {node_name(node)};
    instance.jobs.push_back(std::move(one));
  }
  return instance;
}

// Returns the best value over all choices of sizes; negative infinity: there is none.
double best_by_search(const Instance& instance) {
  double best = -INFINITY;
  const auto jobs = cluster::to_placed(instance.jobs, nodes_of(instance.nodes)).value();
  std::vector<cluster::Gang> gangs;
  const std::function<void(size_t, double)> choose = [&](size_t next, double value) {
    if (next == jobs.size()) {
      std::vector<int> room = instance.nodes;
      if (cluster::find_places(gangs, room, 10'000'000).outcome == cluster::Places::kFound) {
        best = std::max(best, value);
      }
      return;
    }
    const cluster::PlacedRequest& one = jobs[next];
    const auto cost = [&](int workers) {
      return workers == one.current_workers ? 0 : one.switch_cost;
    };
    if (one.may_wait) choose(next + 1, value - cost(0));
    for (const SizeOption& size : one.sizes) {
      gangs.push_back(cluster::gang_of(one, size, instance.nodes));
      choose(next + 1, value + size.value - cost(size.workers));
      gangs.pop_back();
    }
  };
  choose(0, 0);
  return best;
}

TEST(PlacedPlan, EqualsExhaustiveSearch) {
  std::mt19937 random(1);
  int placed = 0, better_without = 0;
  for (int round = 0; round < 5000; ++round) {
    const Instance instance = draw_instance(random);
    const double best = best_by_search(instance);
    const auto plan = plan_jobs(instance.jobs, nodes_of(instance.nodes), {.plans_max = 100'000});
    ASSERT_TRUE(plan.ok()) << "round " << round;
    ASSERT_EQ(plan->feasible, std::isfinite(best)) << "round " << round;
    if (!plan->feasible) continue;
    ASSERT_TRUE(plan->is_best) << "round " << round;
    ASSERT_NEAR(plan->total, best, 1e-9) << "round " << round;
    ++placed;
    better_without += plan->plans_tried > 1 ? 1 : 0;
  }
  EXPECT_GT(placed, 1000);
  EXPECT_GT(better_without, 200);  // node boundaries mattered
}

// Holds for any limit: the returned plan is feasible, and the bound is valid.
TEST(PlacedPlan, TheBoundHoldsWhereItStopsEarly) {
  std::mt19937 random(2);
  int early = 0;
  for (int round = 0; round < 1000; ++round) {
    const Instance instance = draw_instance(random);
    const double best = best_by_search(instance);
    const auto plan =
        plan_jobs(instance.jobs, nodes_of(instance.nodes), {.plans_max = 2, .placements_max = 20});
    ASSERT_OK(plan);
    if (!plan->feasible) continue;
    ASSERT_LE(plan->total, best + 1e-9) << "round " << round;
    ASSERT_GE(plan->bound, best - 1e-9) << "round " << round;
    if (plan->is_best) {
      ASSERT_NEAR(plan->total, best, 1e-9) << "round " << round;
    }
    std::vector<int> room = instance.nodes;
    for (const JobAllocation& share : plan->jobs) {
      int workers = 0;
      for (const NodeWorkers& place : share.nodes) {
        room[number_of(place)] -= place.workers;
        workers += place.workers;
      }
      ASSERT_EQ(workers, share.workers);
    }
    for (const int left : room) ASSERT_GE(left, 0) << "round " << round;
    early += plan->is_best ? 0 : 1;
  }
  EXPECT_GT(early, 50);
}

TEST(PlacedPlan, ManyJobsOnManyNodes) {
  std::mt19937 random(3);
  std::vector<JobRequest> jobs;
  for (int i = 0; i < 60; ++i) {
    JobRequest one = named(std::to_string(i), {});
    const double power = 0.5 + 0.45 * static_cast<double>(random() % 1000) / 1000;
    for (int k = 1; k <= 8; ++k) {
      const double value = std::pow(k, power);
      if (k > 1 && k <= 4) one.sizes.push_back(on_one_node(k, value));
      one.sizes.push_back(anywhere(k, k == 1 ? 1 : 0.8 * value));
    }
    jobs.push_back(std::move(one));
  }
  ASSERT_OK_AND_ASSIGN(const Plan plan, plan_jobs(jobs, nodes_of(std::vector<int>(40, 4))));
  ASSERT_TRUE(plan.feasible);
  EXPECT_GE(plan.total, 0.98 * plan.bound);
  EXPECT_LE(plan.plans_tried, 400);
}

}  // namespace
}  // namespace ffdl
