#include "cluster/simulator/policies.h"

#include <gtest/gtest.h>

#include "cluster/simple_jobs.h"

namespace ffdl::cluster {
namespace {

std::unique_ptr<Policy> policy_of(ClusterPolicy policy) {
  ClusterOptions options;
  options.nodes = 1;
  options.gpus_per_node = 8;
  options.policy = policy;
  return make_policy(options);
}

// Decides, and applies the decision to the jobs.
std::vector<int> step(Policy& policy, SimpleJobs& jobs, double seconds) {
  const Decision decision = policy.decide(jobs.active(), 0, seconds).value();
  for (size_t i = 0; i < jobs.active().size(); ++i) {
    jobs.active()[i]->allocation.clear();
    if (decision.workers[i] > 0) jobs.active()[i]->allocation = {{0, decision.workers[i]}};
  }
  return decision.workers;
}

TEST(FixedPolicy, NobodyOvertakes) {
  SimpleJobs jobs;
  jobs.add(5);
  jobs.add(4);
  jobs.add(2);
  const auto policy = policy_of(ClusterPolicy::kFixed);
  EXPECT_EQ(step(*policy, jobs, 60), (std::vector{5, 0, 0}));
  jobs.active().erase(jobs.active().begin());
  EXPECT_EQ(step(*policy, jobs, 60), (std::vector{4, 2}));
}

TEST(TiresiasPolicy, PassesOverWhoDoesNotFitAndDemotesWhoHadHisShare) {
  SimpleJobs jobs;
  jobs.add(6);
  jobs.add(4);
  jobs.add(2);
  const auto policy = policy_of(ClusterPolicy::kTiresias);
  EXPECT_EQ(step(*policy, jobs, 60), (std::vector{6, 0, 2}));
  EXPECT_EQ(step(*policy, jobs, 9599), (std::vector{6, 0, 2}));
  // 6 workers for 9600 s are 16 hours of one worker, so the first job is served after the others
  // now.
  EXPECT_EQ(step(*policy, jobs, 1), (std::vector{0, 4, 2}));
}

TEST(ElasticTiresiasPolicy, ShrinksDemotedJobsWhenManyWait) {
  SimpleJobs jobs;
  jobs.add(8);
  const auto policy = policy_of(ClusterPolicy::kElasticTiresias);
  EXPECT_EQ(step(*policy, jobs, 60), (std::vector{8}));
  for (int i = 0; i < 10; ++i) jobs.add(9);  // none of these can ever fit
  jobs.add(7);
  std::vector<int> expected(12);
  expected[11] = 7;  // served before the demoted one
  EXPECT_EQ(step(*policy, jobs, 7200), expected);
  jobs.active().pop_back();
  jobs.add(9);
  expected[0] = 1;  // served, demoted, and eleven jobs wait
  expected[11] = 0;
  EXPECT_EQ(step(*policy, jobs, 60), expected);
}

TEST(ElasticTiresiasPolicy, GivesLeftoversToWhoGainsMost) {
  SimpleJobs jobs;
  jobs.add(2, 64);
  jobs.estimator().observe({.batch = 32, .step_s = 1}, {});
  jobs.estimator().observe({.batch = 64, .step_s = 2}, {});
  const auto policy = policy_of(ClusterPolicy::kElasticTiresias);
  EXPECT_EQ(step(*policy, jobs, 60), (std::vector{4}));  // twice the requested workers, not more
}

TEST(ShortestFirstPolicy, ServesWhoEndsSoonest) {
  SimpleJobs jobs;
  jobs.add(8);
  jobs.add(8).progress = 500;
  jobs.active()[1]->epoch = 5;
  EXPECT_EQ(step(*policy_of(ClusterPolicy::kShortestFirst), jobs, 60), (std::vector{0, 8}));
}

}  // namespace
}  // namespace ffdl::cluster
