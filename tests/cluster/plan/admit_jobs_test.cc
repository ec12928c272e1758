#include <gtest/gtest.h>

#include <cmath>

#include "cluster/plan/numbered_nodes.h"
#include "ffdl/cluster/job_planner.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using testing::at;
using testing::node_name;
using testing::nodes_of;
using testing::number_of;

// Returns a job whose value is the square root of its workers: `least` to `most` of them.
JobRequest sized_job(const std::string& name, int least, int most, int current = 0) {
  JobRequest job;
  job.name = name;
  job.current_workers = current;
  job.is_admitted = current > 0;
  for (int k = least; k <= most; ++k) job.sizes.push_back({k, std::sqrt(k), 10 * k});
  return job;
}

// Plans on workers without boundaries of nodes.
Result<Plan> plan_of(const std::vector<JobRequest>& jobs, int workers, WhenFull when_full) {
  return plan_jobs(jobs, std::vector<NodeWorkers>{{"", workers}}, {.when_full = when_full});
}

Result<Plan> plan_on(const std::vector<JobRequest>& jobs, const std::vector<int>& nodes,
                     WhenFull when_full) {
  return plan_jobs(jobs, nodes_of(nodes), {.when_full = when_full});
}

struct Row {
  const char* what;
  std::vector<JobRequest> jobs;
  int workers;
  WhenFull when_full;
  std::vector<int> expected;  // -1: dropped
};

TEST(AdmitJobs, Table) {
  const auto a = [](int current = 0) { return sized_job("a", 1, 4, current); };
  const Row rows[] = {
      {"nobody", {}, 4, WhenFull::kQueue, {}},
      {"one alone has all it can use", {a()}, 8, WhenFull::kQueue, {4}},
      {"who comes takes from who runs", {a(4), a()}, 4, WhenFull::kQueue, {2, 2}},
      {"who ends leaves his to the others", {a(2)}, 4, WhenFull::kQueue, {4}},
      {"as many as fit", {a(), a(), a()}, 2, WhenFull::kQueue, {1, 1, 0}},
      {"nobody overtakes", {a(1), sized_job("b", 2, 2), a()}, 2, WhenFull::kQueue, {2, 0, 0}},
      {"who is dropped holds up nobody",
       {a(1), sized_job("b", 2, 2), a()},
       2,
       WhenFull::kDrop,
       {1, -1, 1}},
      {"who runs is not turned away by who came before",
       {a(), sized_job("b", 2, 2, 2)},
       2,
       WhenFull::kQueue,
       {0, 2}},
      {"a lost node",
       {sized_job("a", 2, 4, 3), sized_job("b", 1, 4, 3), a()},
       2,
       WhenFull::kDrop,
       {2, 1, -1}},
      {"no workers at all", {a()}, 0, WhenFull::kQueue, {0}},
  };
  for (const Row& row : rows) {
    const auto plan = plan_of(row.jobs, row.workers, row.when_full);
    ASSERT_TRUE(plan.ok()) << row.what;
    std::vector<int> got;
    for (const JobAllocation& share : plan->jobs) {
      got.push_back(share.is_dropped ? -1 : share.workers);
      EXPECT_FALSE(share.is_dropped && share.workers > 0) << row.what;
      EXPECT_EQ(share.batch, 10 * share.workers) << row.what;
      EXPECT_FALSE(explain(share).empty()) << row.what;
    }
    EXPECT_EQ(got, row.expected) << row.what;
  }
}

TEST(AdmitJobs, SaysWhy) {
  const std::vector<JobRequest> jobs = {sized_job("a", 2, 2), sized_job("b", 1, 1),
                                        sized_job("c", 1, 1)};
  const auto queued = plan_of(jobs, 2, WhenFull::kQueue).value();
  EXPECT_EQ(queued.jobs[1].reason,
            "it needs 1 of 2 workers, and the jobs before it need at least 2");
  EXPECT_EQ(queued.jobs[2].reason, "it waits behind b");
  const auto lost = plan_of(std::vector{sized_job("a", 2, 2, 2)}, 1, WhenFull::kQueue).value();
  EXPECT_FALSE(lost.feasible);
  EXPECT_EQ(lost.jobs[0].reason, "1 workers are fewer than the jobs need; it keeps its minimum");
}

// Returns a job whose workers share a node.
JobRequest packed_job(const std::string& name, int least, int most, int current = 0) {
  JobRequest job = sized_job(name, least, most, current);
  for (SizeOption& size : job.sizes) size.nodes_max = 1;
  return job;
}

// Returns the job as running on a node that it must keep.
JobRequest running_on(int node, JobRequest job) {
  job.current_nodes = at({{node, job.current_workers}});
  job.may_move = false;
  return job;
}

TEST(AdmitPlacedJobs, Table) {
  struct PlacedRow {
    const char* what;
    std::vector<JobRequest> jobs;
    std::vector<int> nodes;
    WhenFull when_full;
    std::vector<int> expected;  // -1: dropped
    bool feasible = true;
  };
  JobRequest pinned = sized_job("pinned", 1, 4);
  pinned.only_nodes = {node_name(1)};
  JobRequest gone = running_on(1, sized_job("gone", 2, 4, 2));
  gone.only_nodes = {node_name(1)};
  const PlacedRow rows[] = {
      {"nobody", {}, {4}, WhenFull::kQueue, {}},
      {"as without boundaries",
       {sized_job("a", 1, 4, 4), sized_job("b", 1, 4)},
       {2, 2},
       WhenFull::kQueue,
       {2, 2}},
      {"a gang that fits on no node",
       {packed_job("a", 3, 4), sized_job("b", 1, 1)},
       {2, 2},
       WhenFull::kQueue,
       {0, 0}},
      {"and is dropped",
       {packed_job("a", 3, 4), sized_job("b", 1, 1)},
       {2, 2},
       WhenFull::kDrop,
       {-1, 1}},
      {"enough workers, but not together",
       {packed_job("a", 3, 3), packed_job("b", 3, 3), packed_job("c", 2, 2), sized_job("d", 2, 2)},
       {4, 4},
       WhenFull::kDrop,
       {3, 3, -1, 2}},
      {"who runs stays where it is",
       {running_on(0, packed_job("a", 1, 4, 1)), running_on(0, packed_job("b", 1, 1, 1))},
       {3, 4},
       WhenFull::kQueue,
       {2, 1}},
      {"on its own node", {pinned, sized_job("a", 1, 4)}, {4, 1}, WhenFull::kQueue, {1, 4}},
      {"whose node has gone keeps its least, and the others are not smaller for it",
       {gone, running_on(0, packed_job("b", 1, 4, 2))},
       {4, 0},
       WhenFull::kQueue,
       {2, 4},
       false},
  };
  for (const PlacedRow& row : rows) {
    SCOPED_TRACE(row.what);
    ASSERT_OK_AND_ASSIGN(const Plan plan, plan_on(row.jobs, row.nodes, row.when_full));
    EXPECT_EQ(plan.feasible, row.feasible);
    std::vector<int> got, room = row.nodes;
    for (const JobAllocation& share : plan.jobs) {
      got.push_back(share.is_dropped ? -1 : share.workers);
      EXPECT_FALSE(explain(share).empty());
      int placed = 0;
      for (const NodeWorkers& place : share.nodes) {
        room[number_of(place)] -= place.workers;
        placed += place.workers;
      }
      EXPECT_EQ(placed, share.workers);
    }
    EXPECT_EQ(got, row.expected);
    if (!row.feasible) continue;
    for (const int left : room) EXPECT_GE(left, 0);
  }
}

TEST(AdmitPlacedJobs, SaysWhyAndRefusesWhatMakesNoSense) {
  const std::vector<JobRequest> jobs = {packed_job("a", 3, 3), packed_job("b", 2, 2),
                                        sized_job("c", 1, 1)};
  const auto queued = plan_on(jobs, std::vector{4, 1}, WhenFull::kQueue).value();
  EXPECT_EQ(queued.jobs[1].reason,
            "its 2 workers do not fit on the nodes beside the jobs before it");
  EXPECT_EQ(queued.jobs[2].reason, "it waits behind b");
  const auto none = plan_on(jobs, std::vector{2, 2}, WhenFull::kQueue).value();
  EXPECT_EQ(none.jobs[0].reason,
            "it needs 3 workers, and none of its sizes fits on the nodes, which have 4");
  EXPECT_FAILS(plan_on(std::vector{sized_job("a", 1, 0)}, std::vector{2}, WhenFull::kQueue),
               StatusCode::kInvalidArgument, "'a': it has no size");
}

TEST(AdmitJobs, RefusesWhatThePlannerRefuses) {
  EXPECT_FAILS(plan_of(std::vector{sized_job("a", 1, 0)}, 2, WhenFull::kQueue),
               StatusCode::kInvalidArgument, "plan job 'a': it has no size");
}

TEST(DiscountSwitches, KeepsAPlanThatIsNearlyAsGood) {
  // With 5 workers, 3 and 2 have the same value as 2 and 3, apart from the first job's small
  // advantage.
  std::vector<JobRequest> jobs = {sized_job("a", 1, 4, 2), sized_job("b", 1, 4, 3)};
  jobs[0].sizes[2].value += 0.01;
  EXPECT_EQ(plan_of(jobs, 5, WhenFull::kQueue)->jobs[0].workers, 3);
  for (JobRequest& one : jobs) discount_switches(one, 30, 300);
  EXPECT_EQ(plan_of(jobs, 5, WhenFull::kQueue)->jobs[0].workers, 2);
  // Using free workers is worth a switch.
  EXPECT_EQ(plan_of(jobs, 8, WhenFull::kQueue)->jobs[0].workers, 4);
}

}  // namespace
}  // namespace ffdl
