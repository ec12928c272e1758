#include "cluster/simulator/elastic_policy.h"

#include <gtest/gtest.h>

#include "cluster/simple_jobs.h"

namespace ffdl::cluster {
namespace {

ClusterOptions options(int gpus, PlanObjective objective) {
  ClusterOptions options;
  options.nodes = 1;
  options.gpus_per_node = gpus;
  options.objective = objective;
  return options;
}

// Teaches perfect scaling: computation in proportion to the batch, no network.
void teach(SimpleJobs& jobs) {
  jobs.estimator().observe({.batch = 8, .step_s = 1}, {1, 1});
  jobs.estimator().observe({.batch = 64, .step_s = 8}, {1, 1});
}

TEST(ElasticPolicy, TriesUnknownProgramsOnOneWorker) {
  SimpleJobs jobs;
  jobs.add(4);
  jobs.add(4);
  ElasticPolicy policy(options(8, PlanObjective::kGoodput));
  EXPECT_EQ(policy.decide(jobs.active(), 0, 60)->workers, (std::vector{1, 1}));
}

TEST(ElasticPolicy, GrowsThreefoldAtMost) {
  SimpleJobs jobs;
  jobs.add(4);
  jobs.add(1);  // asks for one worker only
  teach(jobs);
  ElasticPolicy policy(options(8, PlanObjective::kThroughput));
  EXPECT_EQ(policy.decide(jobs.active(), 0, 60)->workers, (std::vector{3, 1}));
}

TEST(ElasticPolicy, ThroughputAdmitsFirstComeFirstServed) {
  SimpleJobs jobs;
  for (int i = 0; i < 4; ++i) jobs.add(4);
  ElasticPolicy policy(options(3, PlanObjective::kThroughput));
  EXPECT_EQ(policy.decide(jobs.active(), 0, 60)->workers, (std::vector{1, 1, 1, 0}));
}

TEST(ElasticPolicy, GoodputPrefersWhoIsNearerToTheEnd) {
  SimpleJobs jobs;
  jobs.add(4);
  jobs.add(4).progress = 900;
  teach(jobs);
  ElasticPolicy policy(options(1, PlanObjective::kGoodput));
  EXPECT_EQ(policy.decide(jobs.active(), 0, 60)->workers, (std::vector{0, 1}));
}

TEST(ElasticPolicy, DoesNotSwitchForASmallGain) {
  SimpleJobs jobs;
  jobs.add(4).progress = 5;
  jobs.add(4);
  jobs.active()[1]->allocation = {
      {0, 1}};  // running; the other job is only a little nearer to its end
  teach(jobs);
  ElasticPolicy policy(options(1, PlanObjective::kGoodput));
  EXPECT_EQ(policy.decide(jobs.active(), 0, 60)->workers, (std::vector{0, 1}));
}

// Plans on two nodes of three workers, with a slow network between them.
TEST(ElasticPolicy, PlansNodesSoThatNobodyLiesAcrossThem) {
  SimpleJobs jobs;
  jobs.add(4);
  jobs.add(4);
  teach(jobs);
  jobs.estimator().observe({2, 1, 16, 1, 1.02, 0.02}, {1, 1});
  jobs.estimator().observe({2, 2, 16, 1, 3, 2}, {1, 1});
  ClusterOptions two = options(3, PlanObjective::kThroughput);
  two.nodes = 2;
  two.plans_nodes = true;
  ElasticPolicy policy(two);
  const auto decide = [&] { return policy.decide(jobs.active(), 0, 60)->places; };
  EXPECT_EQ(decide(), (std::vector<Allocation>{{{0, 3}}, {{1, 3}}}));
  jobs.active()[0]->allocation = {{1, 3}};
  jobs.active()[1]->allocation = {{0, 3}};
  EXPECT_EQ(decide(), (std::vector<Allocation>{{{1, 3}}, {{0, 3}}})) << "who runs stays";
}

}  // namespace
}  // namespace ffdl::cluster
