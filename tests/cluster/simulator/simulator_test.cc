#include "cluster/simulator/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "cluster/simulator/synthetic_workload.h"
#include "cluster/simulator/throughput_table.h"
#include "cluster/simulator/trace_files.h"
#include "support/data_folder.h"

namespace ffdl::cluster {
namespace {

// Returns a program that scales with an exchange of gradients, on nodes of two workers. It trains
// 20 epochs of 100 steps.
ApplicationProfile program(std::string name, std::vector<int64_t> batches) {
  ApplicationProfile app;
  app.name = std::move(name);
  for (const int64_t local : {8, 16, 32, 64}) {
    const double compute = 0.1 + 0.01 * static_cast<double>(local);
    for (int nodes = 1; nodes <= 4; ++nodes) {
      for (int workers = nodes; workers <= 2 * nodes; ++workers) {
        std::vector<int> placement(static_cast<size_t>(nodes), 1);
        for (int i = 0; i < workers - nodes; ++i) placement[static_cast<size_t>(i)] = 2;
        const double sync = workers == 1 ? 0 : 0.05 * nodes;
        app.placed.push_back({placement, local, compute + sync, sync});
        app.spread.push_back({placement, local, compute + sync, sync});
      }
    }
  }
  for (const int64_t batch : batches) {
    for (int epoch = 1; epoch <= 20; ++epoch) app.epochs[batch].push_back({100.0 * epoch, 1, 5.0});
  }
  return app;
}

std::map<std::string, ApplicationProfile> programs() {
  return {{"elastic", program("elastic", {32, 64, 128})}, {"rigid", program("rigid", {64})}};
}

std::vector<WorkloadJob> workload(const std::string& application) {
  std::vector<WorkloadJob> jobs;
  for (int i = 0; i < 12; ++i) {
    jobs.push_back({application + std::to_string(i), application, 90.0 * i, 2 + 2 * (i % 2), 64});
  }
  return jobs;
}

ClusterOptions small_cluster(ClusterPolicy policy) {
  ClusterOptions options;
  options.nodes = 4;
  options.gpus_per_node = 2;
  options.policy = policy;
  return options;
}

double mean_jct(const ClusterReport& report) {
  double sum = 0;
  for (const JobOutcome& job : report.jobs) sum += job.completed_s - job.submitted_s;
  return sum / static_cast<double>(report.jobs.size());
}

constexpr ClusterPolicy kPolicies[] = {ClusterPolicy::kFixed, ClusterPolicy::kTiresias,
                                       ClusterPolicy::kElasticTiresias,
                                       ClusterPolicy::kShortestFirst, ClusterPolicy::kElastic};

TEST(Simulate, EveryPolicyEndsEveryJobAndNeverUsesMoreThanThereIs) {
  for (const ClusterPolicy policy : kPolicies) {
    for (const auto objective : {PlanObjective::kGoodput, PlanObjective::kThroughput}) {
      ClusterOptions options = small_cluster(policy);
      options.objective = objective;
      const auto report = simulate_cluster(workload("elastic"), programs(), options);
      ASSERT_TRUE(report.ok()) << report.status().message();
      for (const JobOutcome& job : report->jobs) {
        EXPECT_GE(job.started_s, job.submitted_s);
        EXPECT_GT(job.completed_s, job.started_s);
      }
      std::vector<int> workers(report->jobs.size());
      double now = 0;
      int used = 0;
      for (const AllocationChange& change : report->timeline) {
        if (change.time_s != now) {
          EXPECT_LE(used, 8) << "at " << now;
        }
        now = change.time_s;
        used += change.workers - workers[change.job];
        workers[change.job] = change.workers;
      }
      EXPECT_EQ(used, 0);
      EXPECT_GT(report->utilisation, 0.3);
      EXPECT_LE(report->utilisation, 1.0);
    }
  }
}

TEST(Simulate, PlannedWithTheBoundariesOfNodesEveryJobEnds) {
  for (const auto objective : {PlanObjective::kGoodput, PlanObjective::kThroughput}) {
    ClusterOptions options = small_cluster(ClusterPolicy::kElastic);
    options.objective = objective;
    options.plans_nodes = true;
    const auto report = simulate_cluster(workload("elastic"), programs(), options);
    ASSERT_TRUE(report.ok()) << report.status().message();
    for (const JobOutcome& job : report->jobs) EXPECT_GT(job.completed_s, job.started_s);
    options.known_speeds = true;
    EXPECT_TRUE(simulate_cluster(workload("elastic"), programs(), options).ok());
  }
}

TEST(Simulate, IsTheSameEveryTime) {
  const auto options = small_cluster(ClusterPolicy::kElastic);
  const auto first = simulate_cluster(workload("elastic"), programs(), options).value();
  const auto second = simulate_cluster(workload("elastic"), programs(), options).value();
  ASSERT_EQ(first.timeline.size(), second.timeline.size());
  for (size_t i = 0; i < first.jobs.size(); ++i) {
    EXPECT_EQ(first.jobs[i].completed_s, second.jobs[i].completed_s);
  }
}

TEST(Simulate, AJobAloneTakesAsLongAsItsStepsSay) {
  // 2000 steps of batch 64 on two workers of one node take 0.1 + 0.32 + 0.05 s each. The gain is 6
  // / (5 / 1 + 1) = 1.
  auto jobs = workload("rigid");
  jobs.resize(1);
  const auto report =
      simulate_cluster(jobs, programs(), small_cluster(ClusterPolicy::kFixed)).value();
  EXPECT_EQ(report.jobs[0].started_s, 60);
  EXPECT_NEAR(report.jobs[0].completed_s, 60 + 30 + 2000 * 0.47,
              20);  // epochs end on whole seconds
}

TEST(Simulate, JobsThatCannotVaryTheirBatchGainNothingFromADynamicOne) {
  for (const auto objective : {PlanObjective::kGoodput, PlanObjective::kThroughput}) {
    ClusterOptions options = small_cluster(ClusterPolicy::kElastic);
    options.objective = objective;
    const auto dynamic = simulate_cluster(workload("rigid"), programs(), options).value();
    options.batch = TrainingBatch::kWorkload;
    const auto fixed = simulate_cluster(workload("rigid"), programs(), options).value();
    for (size_t i = 0; i < fixed.jobs.size(); ++i) {
      EXPECT_EQ(dynamic.jobs[i].completed_s, fixed.jobs[i].completed_s);
    }
  }
}

TEST(Simulate, JobsTrainWithTheBatchThatIsSaid) {
  // A step of 128 takes longer than one of 32. It is worth more only if the gradients are noisy.
  const auto mean = [](TrainingBatch batch, bool alike) {
    ClusterOptions options = small_cluster(ClusterPolicy::kElastic);
    options.objective = PlanObjective::kThroughput;
    options.batch = batch;
    options.samples_count_alike = alike;
    return mean_jct(simulate_cluster(workload("elastic"), programs(), options).value());
  };
  EXPECT_LT(mean(TrainingBatch::kSmallest, false), mean(TrainingBatch::kWorkload, false));
  EXPECT_LT(mean(TrainingBatch::kWorkload, false), mean(TrainingBatch::kLargest, false));
  EXPECT_GT(mean(TrainingBatch::kSmallest, true), mean(TrainingBatch::kWorkload, true));
  EXPECT_GT(mean(TrainingBatch::kWorkload, true), mean(TrainingBatch::kLargest, true));
}

TEST(Simulate, InDropModeWhoDoesNotFitIsTurnedAwayAndNobodyElse) {
  std::vector<WorkloadJob> jobs;
  for (int i = 0; i < 12; ++i) jobs.push_back({"rigid", "rigid", 0, 2, 64});
  ClusterOptions options = small_cluster(ClusterPolicy::kElastic);
  options.objective = PlanObjective::kThroughput;
  options.when_full = WhenFull::kDrop;
  const auto report = simulate_cluster(jobs, programs(), options).value();
  for (size_t i = 0; i < jobs.size(); ++i) {  // eight workers, at least one per job
    EXPECT_EQ(report.jobs[i].completed_s > 0, i < 8) << i;
    EXPECT_EQ(report.jobs[i].dropped_s, i < 8 ? -1 : 60) << i;
    EXPECT_EQ(report.jobs[i].started_s > 0, i < 8) << i;
  }
}

TEST(Simulate, KnownSpeedsArePlannedByFromTheFirstMinute) {
  auto jobs = workload("rigid");
  jobs.resize(1);
  ClusterOptions options = small_cluster(ClusterPolicy::kElastic);
  options.objective = PlanObjective::kThroughput;
  const auto first = [&] { return simulate_cluster(jobs, programs(), options)->timeline[0]; };
  EXPECT_EQ(first().workers, 1);  // tried on one worker first
  options.known_speeds = true;
  EXPECT_GT(first().workers, 1);
}

TEST(Simulate, CheaperSwitchesEndJobsSooner) {
  ClusterOptions options = small_cluster(ClusterPolicy::kElastic);
  const double restarts =
      mean_jct(simulate_cluster(workload("elastic"), programs(), options).value());
  options.restart_s = 0.1;
  const double switches =
      mean_jct(simulate_cluster(workload("elastic"), programs(), options).value());
  EXPECT_LT(switches, restarts);
}

// Returns a trace of jobs that take 600 s each. With their requested workers, two of them fit at a
// time.
std::vector<WorkloadJob> trace() {
  std::vector<WorkloadJob> jobs;
  for (int i = 0; i < 6; ++i) {
    jobs.push_back({.name = std::to_string(i),
                    .application = "table",
                    .submitted_s = 60.0 * i,
                    .workers = 4,
                    .batch = 64,
                    .duration_s = 600});
  }
  return jobs;
}

std::map<std::string, ApplicationProfile> table() {
  ApplicationProfile table{.name = "table"};
  table.throughputs = {{64, {{1, 1.0}, {2, 1.9}, {4, 3.0}, {8, 4.0}}}, {128, {{8, 3.0}}}};
  return {{"table", table}};
}

TEST(Simulate, ATracesJobTakesAsLongAsItsTraceSays) {
  const auto report =
      simulate_cluster(trace(), table(), small_cluster(ClusterPolicy::kFixed)).value();
  EXPECT_EQ(report.jobs[0].completed_s, 60 + 30 + 600);
  EXPECT_EQ(report.jobs[1].completed_s, 60 + 30 + 600);
  EXPECT_EQ(report.jobs[5].completed_s, report.jobs[5].started_s + 630);
}

TEST(Simulate, EveryPolicyHoldsToATable) {
  for (const ClusterPolicy policy : kPolicies) {
    for (const auto objective : {PlanObjective::kGoodput, PlanObjective::kThroughput}) {
      ClusterOptions options = small_cluster(policy);
      options.objective = objective;
      options.plans_nodes = objective == PlanObjective::kGoodput;
      const auto report = simulate_cluster(trace(), table(), options);
      ASSERT_TRUE(report.ok()) << report.status().message();
      for (const JobOutcome& job : report->jobs) EXPECT_GT(job.completed_s, 0);
      for (const AllocationChange& change : report->timeline) {
        const bool is_listed = change.workers == 0 || std::has_single_bit(unsigned(change.workers));
        EXPECT_TRUE(is_listed && change.workers <= 8) << change.workers;
      }
    }
  }
}

TEST(Simulate, AnElasticJobOfATableTakesItsBestBatch) {
  auto jobs = trace();
  jobs.resize(1);
  ClusterOptions options = small_cluster(ClusterPolicy::kElastic);
  options.batch = TrainingBatch::kDynamic;
  // 1800 steps of 64 are 900 steps of 128, at 3 a second on all eight workers.
  EXPECT_EQ(simulate_cluster(jobs, table(), options)->jobs[0].completed_s, 60 + 30 + 300);
  options.batch = TrainingBatch::kWorkload;
  EXPECT_EQ(simulate_cluster(jobs, table(), options)->jobs[0].completed_s, 60 + 30 + 450);
}

TEST(Simulate, ThePublishedTraceAndTables) {
  FFDL_DATA_FOLDER_OR_SKIP(folder, "traces");
  auto jobs = load_workload(folder + "/itp/cluster10.csv").value();
  const auto tables = load_throughput_profiles(folder + "/throughputs_T4").value();
  ASSERT_TRUE(draw_programs(jobs, tables, {.nodes = 4, .gpus_per_node = 4}).ok());
  ClusterOptions options;
  options.nodes = 4;
  options.gpus_per_node = 4;
  const double elastic = mean_jct(simulate_cluster(jobs, tables, options).value());
  options.policy = ClusterPolicy::kFixed;
  const auto fixed = simulate_cluster(jobs, tables, options).value();
  EXPECT_LT(elastic, mean_jct(fixed));
  for (size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_NEAR(fixed.jobs[i].completed_s - fixed.jobs[i].started_s, jobs[i].duration_s + 30, 1);
  }
}

TEST(Simulate, RefusesWhatMakesNoSense) {
  const auto jobs = workload("rigid");
  const auto message = [&](auto change, WorkloadJob job, ClusterOptions options = {}) {
    change(job, options);
    return std::string(simulate_cluster(std::vector{job}, programs(), options).status().message());
  };
  EXPECT_EQ(message([](auto& job, auto&) { job.application = "other"; }, jobs[0]),
            "simulate job 'rigid0': there is no profile of 'other'; add one");
  EXPECT_EQ(message([](auto& job, auto&) { job.workers = 65; }, jobs[0]),
            "simulate job 'rigid0': it asks for 65 workers of 64; ask for fewer");
  const auto from_file = [](auto& job, auto&) {
    job.workers = 65;
    job.source = {.file = "w.csv", .line = 3, .workers_column = 4};
  };
  EXPECT_EQ(message(from_file, jobs[0]),
            "read 'w.csv': line 3, column 4: job 'rigid0': it asks for 65 workers of 64; ask for "
            "fewer");
  EXPECT_EQ(message([](auto& job, auto&) { job.duration_s = -1; }, jobs[0]),
            "simulate job 'rigid0': its duration is -1 s; give 0 or more");
  EXPECT_EQ(message([](auto& job, auto&) { job.batch = 65; }, jobs[0]),
            "simulate job 'rigid0': a batch of 65; its profile has 64 to 64");
  const auto late = [](auto& job, auto&) {
    job.submitted_s = 1e9;
    job.source = {.file = "w.csv", .line = 3, .time_column = 2};
  };
  EXPECT_EQ(message(late, jobs[0]),
            "read 'w.csv': line 3, column 2: job 'rigid0': it arrives at 1000000000 s, and a "
            "simulation until 2592000 s later needs 1.67099e+07 decisions, and at most 1e+06 are "
            "possible; give an earlier time, or a longer interval");
  EXPECT_EQ(message([](auto&, auto& options) { options.horizon_s = HUGE_VAL; }, jobs[0]),
            "simulate a cluster: a horizon of inf s; give 0 or more");
  EXPECT_EQ(message([](auto&, auto& options) { options.nodes = 0; }, jobs[0]),
            "simulate a cluster: 0 nodes of 4 GPUs; give at least 1 of each");
  EXPECT_EQ(
      message([](auto&, auto& options) { options.interval_s = 0; }, jobs[0]),
      "simulate a cluster: interval_s is 0 and restart_s is 30; give an interval above 0, and a "
      "restart of 0 or more");
}

// The public workloads: 16 nodes of 4 GPUs, 60 s intervals, 30 s restarts.
struct Published {
  const char* file;
  double tiresias_s;
  double pollux_s;
};
constexpr Published kPublished[] = {{"workload-1.csv", 2473.7, 2089},
                                    {"workload-2.csv", 5145.0, 3323}};

TEST(Simulate, ReproducesThePublishedTiresias) {
  FFDL_DATA_FOLDER_OR_SKIP(folder, "traces/pollux");
  const auto profiles = load_profiles(folder + "/profiles").value();
  for (const Published& published : kPublished) {
    ClusterOptions options;
    options.policy = ClusterPolicy::kTiresias;
    const auto jobs = load_workload(folder + "/workloads/" + published.file).value();
    const auto report = simulate_cluster(jobs, profiles, options).value();
    EXPECT_NEAR(mean_jct(report), published.tiresias_s, 0.01 * published.tiresias_s);
  }
}

TEST(Simulate, GoodputPlansEndJobsSoonerThanThePublishedPollux) {
  FFDL_DATA_FOLDER_OR_SKIP(folder, "traces/pollux");
  const auto profiles = load_profiles(folder + "/profiles").value();
  for (const Published& published : kPublished) {
    const auto jobs = load_workload(folder + "/workloads/" + published.file).value();
    EXPECT_LE(mean_jct(simulate_cluster(jobs, profiles, {}).value()), published.pollux_s);
  }
}

}  // namespace
}  // namespace ffdl::cluster
