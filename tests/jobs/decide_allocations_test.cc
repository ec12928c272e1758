#include "jobs/decide_allocations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "support/status_matchers.h"

namespace ffdl::jobs {
namespace {

JobDemand demand(const std::string& name, int least, int most) {
  JobDemand demand{name, {}};
  for (int k = least; k <= most; ++k) demand.sizes.push_back({k, std::sqrt(k), 0});
  return demand;
}

// A job that has come to what it was told; 0: told nothing yet.
JobFacts job(const std::string& name, int workers, int least = 1, int most = 4) {
  JobFacts facts{.demand = demand(name, least, most), .wanted = workers, .running = workers};
  if (workers > 0) facts.answer = JobAllocation{.job = name, .workers = workers};
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
  dropped.answer = JobAllocation{.job = "b", .is_dropped = true, .reason = "full"};
  JobFacts away = job("a", 3);
  away.is_away = true;
  away.demand.sizes.clear();
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
    const auto decision = decide_allocations({.workers = row.workers, .jobs = row.jobs},
                                             {.when_full = row.when_full});
    ASSERT_TRUE(decision.ok()) << row.what;
    EXPECT_EQ(workers_of(*decision), row.expected) << row.what;
    EXPECT_EQ(decision->is_settled, row.is_settled) << row.what;
  }
}

TEST(DecideAllocations, WhatAJobHasShownCountsMoreThanWhatItSaid) {
  JobFacts a = job("a", 2), b = job("b", 2);  // both said the square root
  const auto decide = [&] {
    return workers_of(*decide_allocations({.workers = 4, .jobs = {a, b}}, {}));
  };
  EXPECT_EQ(decide(), (std::vector{2, 2}));
  a.speeds = {{1, 64, 100, 1.0}, {2, 64, 100, 0.99}};  // a second worker is of no use to it
  EXPECT_EQ(decide(), (std::vector{1, 2}));            // b grows when it has given it back
  a.running = a.wanted = 1;
  a.answer->workers = 1;
  EXPECT_EQ(decide(), (std::vector{1, 3}));
  const auto decision = decide_allocations({.workers = 4, .jobs = {a, b}}, {});
  EXPECT_NE(decision->jobs[0].reason.find("+- 5 %"), std::string::npos) << decision->jobs[0].reason;
}

TEST(DecideAllocations, ASwitchMustPayWithinTheHorizon) {
  JobFacts a = job("a", 1, 1, 2);
  a.demand.sizes[1].value = 1.1;  // 10 % more by a second worker
  const Snapshot snapshot{.workers = 2, .jobs = {a}};
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

// Jobs that come, obey after a while and end, at random: never more workers than there are, and
// nobody who was let in ever has none.
TEST(DecideAllocations, NeverGivesAWorkerTwice) {
  std::mt19937 random(1);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  int ended = 0;
  for (int round = 0; round < 200; ++round) {
    Snapshot snapshot{.workers = draw(1, 12)};
    const AutoscalerOptions options{.when_full =
                                        draw(0, 1) == 0 ? WhenFull::kQueue : WhenFull::kDrop};
    for (int step = 0; step < 100; ++step) {
      if (draw(0, 9) == 0) {
        const int least = draw(1, 3);
        snapshot.jobs.push_back(job(std::to_string(step), 0, least, least + draw(0, 5)));
      }
      for (size_t i = 0; i < snapshot.jobs.size(); ++i) {
        JobFacts& one = snapshot.jobs[i];
        if (one.wanted == 0 && one.granted() > 0 && draw(0, 2) == 0) one.wanted = one.granted();
        if (draw(0, 2) == 0) one.running = one.wanted;
        one.is_starting = one.running < one.wanted;
        if (one.running > 0 && draw(0, 29) == 0) {
          snapshot.jobs.erase(snapshot.jobs.begin() + static_cast<ptrdiff_t>(i--));
          ++ended;
        }
      }
      const auto decision = decide_allocations(snapshot, options);
      ASSERT_OK(decision);
      int held = 0;
      for (size_t i = 0; i < snapshot.jobs.size(); ++i) {
        JobFacts& one = snapshot.jobs[i];
        const int workers = decision->jobs[i].workers;
        if (one.granted() > 0) {
          ASSERT_GE(workers, one.demand.sizes.front().workers);
        }
        ASSERT_LE(workers, one.demand.sizes.back().workers);
        one.answer = decision->jobs[i];
        if (one.wanted > 0 && draw(0, 2) > 0) one.wanted = workers;  // or it was killed before
        held += std::max({one.running, one.wanted, workers});
      }
      ASSERT_LE(held, snapshot.workers) << "round " << round << ", step " << step;
    }
  }
  EXPECT_GT(ended, 100);
}

}  // namespace
}  // namespace ffdl::jobs
