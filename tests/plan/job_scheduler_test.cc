#include "ffdl/job_scheduler.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/status_matchers.h"

namespace ffdl {
namespace {

// Worth the square root of its workers: `least` to `most` of them.
ScheduledJob sized_job(const std::string& name, int least, int most, int current = 0) {
  ScheduledJob job;
  job.request.name = name;
  job.request.current_workers = current;
  job.is_admitted = current > 0;
  for (int k = least; k <= most; ++k) job.request.sizes.push_back({k, std::sqrt(k), 10 * k});
  return job;
}

struct Row {
  const char* what;
  std::vector<ScheduledJob> jobs;
  int workers;
  WhenFull when_full;
  std::vector<int> expected;  // -1: dropped
};

TEST(ScheduleJobs, Table) {
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
    const auto schedule = schedule_jobs(row.jobs, row.workers, row.when_full);
    ASSERT_TRUE(schedule.ok()) << row.what;
    std::vector<int> got;
    for (const ScheduledShare& share : schedule->jobs) {
      got.push_back(share.fate == JobFate::kDropped ? -1 : share.workers);
      EXPECT_EQ(share.fate == JobFate::kRuns, share.workers > 0) << row.what;
      EXPECT_EQ(share.batch, 10 * share.workers) << row.what;
      EXPECT_FALSE(share.reason.empty()) << row.what;
    }
    EXPECT_EQ(got, row.expected) << row.what;
  }
}

TEST(ScheduleJobs, SaysWhy) {
  const std::vector jobs = {sized_job("a", 2, 2), sized_job("b", 1, 1), sized_job("c", 1, 1)};
  const auto queued = schedule_jobs(jobs, 2, WhenFull::kQueue).value();
  EXPECT_EQ(queued.jobs[1].reason, "it needs 1 of 2 workers, and those before it need 2 at least");
  EXPECT_EQ(queued.jobs[2].reason, "it waits behind b");
  const auto lost =
      schedule_jobs(std::vector{sized_job("a", 2, 2, 2)}, 1, WhenFull::kQueue).value();
  EXPECT_FALSE(lost.feasible);
  EXPECT_EQ(lost.jobs[0].reason, "1 workers are fewer than the jobs need; it keeps its least");
}

// Its workers lie together.
ScheduledJob packed_job(const std::string& name, int least, int most, int current = 0) {
  ScheduledJob job = sized_job(name, least, most, current);
  for (SizeOption& size : job.request.sizes) size.nodes_max = 1;
  return job;
}

// One that runs on a node, and stays there.
ScheduledJob running_on(int node, ScheduledJob job) {
  job.request.current_nodes = {{node, job.request.current_workers}};
  job.request.may_move = false;
  return job;
}

TEST(SchedulePlacedJobs, Table) {
  struct PlacedRow {
    const char* what;
    std::vector<ScheduledJob> jobs;
    std::vector<int> nodes;
    WhenFull when_full;
    std::vector<int> expected;  // -1: dropped
    bool feasible = true;
  };
  ScheduledJob pinned = sized_job("pinned", 1, 4);
  pinned.request.only_nodes = {1};
  ScheduledJob gone = running_on(1, sized_job("gone", 2, 4, 2));
  gone.request.only_nodes = {1};
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
    ASSERT_OK_AND_ASSIGN(const Schedule schedule,
                         schedule_placed_jobs(row.jobs, row.nodes, row.when_full));
    EXPECT_EQ(schedule.feasible, row.feasible);
    std::vector<int> got, room = row.nodes;
    for (const ScheduledShare& share : schedule.jobs) {
      got.push_back(share.fate == JobFate::kDropped ? -1 : share.workers);
      EXPECT_EQ(share.fate == JobFate::kRuns, share.workers > 0);
      EXPECT_FALSE(share.reason.empty());
      int placed = 0;
      for (const NodeWorkers& place : share.nodes) {
        room[static_cast<size_t>(place.node)] -= place.workers;
        placed += place.workers;
      }
      EXPECT_EQ(placed, share.workers);
    }
    EXPECT_EQ(got, row.expected);
    if (!row.feasible) continue;
    for (const int left : room) EXPECT_GE(left, 0);
  }
}

TEST(SchedulePlacedJobs, SaysWhyAndRefusesWhatMakesNoSense) {
  const std::vector jobs = {packed_job("a", 3, 3), packed_job("b", 2, 2), sized_job("c", 1, 1)};
  const auto queued = schedule_placed_jobs(jobs, std::vector{4, 1}, WhenFull::kQueue).value();
  EXPECT_EQ(queued.jobs[1].reason, "its 2 workers do not fit on the nodes beside those before it");
  EXPECT_EQ(queued.jobs[2].reason, "it waits behind b");
  const auto none = schedule_placed_jobs(jobs, std::vector{2, 2}, WhenFull::kQueue).value();
  EXPECT_EQ(none.jobs[0].reason,
            "it needs 3 workers, and fits in no size on the nodes, which have 4");
  EXPECT_FAILS(
      schedule_placed_jobs(std::vector{sized_job("a", 1, 0)}, std::vector{2}, WhenFull::kQueue),
      StatusCode::kInvalidArgument, "'a': it has no size");
}

TEST(ScheduleJobs, RefusesWhatThePlannerRefuses) {
  EXPECT_FAILS(schedule_jobs(std::vector{sized_job("a", 1, 0)}, 2, WhenFull::kQueue),
               StatusCode::kInvalidArgument, "plan job 'a': it has no size");
}

TEST(DiscountSwitches, KeepsAPlanThatIsNearlyAsGood) {
  // 5 workers: 3 and 2, or 2 and 3, are worth the same without the first job's small head start.
  std::vector jobs = {sized_job("a", 1, 4, 2), sized_job("b", 1, 4, 3)};
  jobs[0].request.sizes[2].value += 0.01;
  EXPECT_EQ(schedule_jobs(jobs, 5, WhenFull::kQueue)->jobs[0].workers, 3);
  for (ScheduledJob& one : jobs) discount_switches(one.request, 30, 300);
  EXPECT_EQ(schedule_jobs(jobs, 5, WhenFull::kQueue)->jobs[0].workers, 2);
  // Free workers are worth a switch.
  EXPECT_EQ(schedule_jobs(jobs, 8, WhenFull::kQueue)->jobs[0].workers, 4);
}

}  // namespace
}  // namespace ffdl
