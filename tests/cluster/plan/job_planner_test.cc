#include "ffdl/cluster/job_planner.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ffdl {
namespace {

JobRequest job(std::string name, std::vector<SizeOption> sizes) {
  return {.name = std::move(name), .sizes = std::move(sizes)};
}

// Returns a cluster without boundaries.
std::vector<NodeWorkers> any_node(int workers) { return {{"", workers}}; }

TEST(PlanJobs, GivesWorkersWhereTheyAreWorthMost) {
  const std::vector<JobRequest> jobs = {job("a", {{1, 1.0, 32}, {2, 1.2, 64}, {4, 1.3, 64}}),
                                        job("b", {{4, 3.2, 512}, {1, 1.0, 128}, {2, 1.9, 256}})};
  const Plan plan = plan_jobs(jobs, any_node(5)).value();
  EXPECT_TRUE(plan.feasible);
  EXPECT_DOUBLE_EQ(plan.total, 4.2);
  EXPECT_EQ(plan.workers_used, 5);
  ASSERT_EQ(plan.jobs.size(), 2u);
  EXPECT_EQ(plan.jobs[0].workers, 1);
  EXPECT_EQ(plan.jobs[1].workers, 4);
  EXPECT_EQ(plan.jobs[1].batch, 512);
  EXPECT_EQ(plan.jobs[0].larger, (SizeOption{2, 1.2, 64}));
  EXPECT_EQ(plan.jobs[0].smaller, std::nullopt);
  EXPECT_EQ(plan.jobs[1].smaller, (SizeOption{2, 1.9, 256}));
}

TEST(PlanJobs, ExplainsEachShare) {
  const std::vector<JobRequest> jobs = {job("net", {{1, 1.0}, {2, 1.5}, {4, 2.5}}),
                                        {.name = "late", .sizes = {{4, 0.5}}, .may_wait = true}};
  const Plan plan = plan_jobs(jobs, any_node(4)).value();
  EXPECT_EQ(explain(plan.jobs[0]),
            "net gets 4 workers, worth 2.5; it has no larger size; 2 fewer would cost 1");
  EXPECT_EQ(explain(plan.jobs[1]), "late waits; 4 more would add 0.5");
}

TEST(PlanJobs, AJobThatMayWaitCanBeStoppedOrStarted) {
  JobRequest waiting{.name = "w", .sizes = {{3, 2.0}}, .may_wait = true};
  EXPECT_EQ(plan_jobs(std::span(&waiting, 1), any_node(2)).value().jobs[0].workers, 0);
  const Plan started = plan_jobs(std::span(&waiting, 1), any_node(3)).value();
  EXPECT_EQ(started.jobs[0].workers, 3);
  EXPECT_EQ(started.jobs[0].smaller, SizeOption{});
  waiting.sizes.clear();
  EXPECT_EQ(plan_jobs(std::span(&waiting, 1), any_node(3)).value().jobs[0].workers, 0);
}

TEST(PlanJobs, ASwitchCostKeepsAPlanFromFlapping) {
  JobRequest running = job("r", {{1, 1.0}, {2, 1.5}});
  running.current_workers = 1;
  running.switch_cost = 0.6;
  Plan plan = plan_jobs(std::span(&running, 1), any_node(2)).value();
  EXPECT_EQ(plan.jobs[0].workers, 1);
  EXPECT_DOUBLE_EQ(plan.total, 1.0);
  running.switch_cost = 0.4;
  plan = plan_jobs(std::span(&running, 1), any_node(2)).value();
  EXPECT_EQ(plan.jobs[0].workers, 2);
  EXPECT_DOUBLE_EQ(plan.total, 1.1);
  EXPECT_DOUBLE_EQ(plan.jobs[0].value, 1.5);
}

TEST(PlanJobs, TooFewWorkersIsAnAnswerWithAReason) {
  const std::vector<JobRequest> jobs = {job("a", {{4, 1}}), job("b", {{2, 1}})};
  const Plan plan = plan_jobs(jobs, any_node(5)).value();
  EXPECT_FALSE(plan.feasible);
  EXPECT_EQ(plan.reason,
            "2 jobs need at least 6 workers together and there are 5; plan fewer jobs or let some "
            "wait");
  EXPECT_TRUE(plan.jobs.empty());
  EXPECT_TRUE(plan_jobs(jobs, any_node(6)).value().feasible);
}

TEST(PlanJobs, NoJobsIsAnEmptyPlan) {
  const Plan plan = plan_jobs({}, {}).value();
  EXPECT_TRUE(plan.feasible);
  EXPECT_EQ(plan.total, 0);
}

TEST(PlanJobs, RefusesRequestsThatMakeNoSense) {
  const struct {
    JobRequest request;
    int workers;
    const char* message;
  } cases[] = {
      {job("x", {}), 4, "plan job 'x': it has no size; give at least one, or let it wait"},
      {job("x", {{0, 1}}), 4, "plan job 'x': a size of 0 workers; the least is 1"},
      {job("x", {{2, 1}, {1, 1}, {2, 3}}), 4,
       "plan job 'x': 2 workers are listed twice; list each size once"},
      {job("x", {{1, NAN}}), 4,
       "plan job 'x': 1 workers are worth nan; leave impossible sizes out"},
      {job("x", {{1, -INFINITY}}), 4,
       "plan job 'x': 1 workers are worth -inf; leave impossible sizes out"},
      {job("x", {{1, 1}}), -1, "plan jobs: -1 workers available; give 0 or more"},
      {{.name = "x", .sizes = {{1, 1}}, .switch_cost = -1},
       4,
       "plan job 'x': a switch cost of -1; give 0 or more"},
  };
  for (const auto& c : cases) {
    const auto plan = plan_jobs(std::span(&c.request, 1), any_node(c.workers));
    EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(plan.status().message(), c.message);
  }
}

}  // namespace
}  // namespace ffdl
