#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "benchmarks/harness/suite.h"
#include "benchmarks/plan/live.h"
#include "benchmarks/plan/live_worker.h"
#include "cluster/simulator/simulator.h"
#include "cluster/simulator/trace_files.h"
#include "ffdl/cluster/job_planner.h"

// './dev bench plan': the time of a decision, and the speed of the simulator.
namespace ffdl::bench {
namespace {

constexpr int kWorkersMax = 64;  // of one job

// Makes jobs with speed-ups k^p, p from 0.5 to 0.95. If `mixed`, every other job is not concave.
// Either each of its sizes loses up to 30 % at random, or it speeds up only at powers of two.
std::vector<JobRequest> make_jobs(int count, bool mixed) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> real(0, 1);
  std::vector<JobRequest> jobs;
  for (int i = 0; i < count; ++i) {
    JobRequest job;
    job.name = fmt::format("job-{}", i);
    const double power = 0.5 + 0.45 * real(random);
    for (int k = 1; k <= kWorkersMax; ++k) {
      double value = std::pow(k, power);
      if (mixed && i % 4 == 1) value *= 0.7 + 0.3 * real(random);
      if (mixed && i % 4 == 3) value = std::pow(std::exp2(std::floor(std::log2(k))), power);
      job.sizes.push_back({k, value, 0});
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Turn plan_turn(const std::vector<JobRequest>& jobs, int workers) {
  return [&jobs, workers]() -> Result<double> {
    const auto begin = std::chrono::steady_clock::now();
    const NodeWorkers cluster{"", workers};  // without boundaries
    FFDL_RETURN_IF_ERROR(plan_jobs(jobs, std::span(&cluster, 1)).status());
    return seconds_since(begin);
  };
}

void plan_row(Suite& suite, int jobs, int workers, bool mixed, double bound_ms) {
  const std::string name = fmt::format("plan/{}x{}", jobs, workers);
  if (!suite.wants(name)) return;
  const auto requests = make_jobs(suite.options().smoke ? 10 : jobs, mixed);
  const Turn turn = plan_turn(requests, suite.options().smoke ? 40 : workers);
  suite.measure(ValueSpec{.name = name,
                          .unit = "ms",
                          .sample = [&]() -> Result<double> {
                            FFDL_ASSIGN_OR_RETURN(const double seconds, turn());
                            return 1e3 * seconds;
                          },
                          .samples = suite.options().smoke ? 3 : 30,
                          .target = Target{bound_ms, true},
                          .note = mixed ? "half of the jobs not concave" : "all jobs concave"});
}

Result<double> simulated_jobs_per_second(
    const std::vector<cluster::WorkloadJob>& workload,
    const std::map<std::string, cluster::ApplicationProfile>& profiles) {
  const auto begin = std::chrono::steady_clock::now();
  FFDL_RETURN_IF_ERROR(cluster::simulate_cluster(workload, profiles, {}).status());
  return static_cast<double>(workload.size()) / seconds_since(begin);
}

void simulator_row(Suite& suite) {
  const std::string name = "simulate/jobs_per_second";
  if (!suite.wants(name)) return;
  const char* root = std::getenv("FFDL_DATA_DIR");
  const std::string folder = std::string(root ? root : "") + "/traces/pollux";
  auto workload = cluster::load_workload(folder + "/workloads/workload-1.csv");
  if (root == nullptr || workload.status().code() == StatusCode::kNotFound) {
    return suite.missing(name, "the Pollux workloads are not under FFDL_DATA_DIR");
  }
  const auto profiles = cluster::load_profiles(folder + "/profiles");
  if (!workload.ok()) return suite.failed(name, workload.status());
  if (!profiles.ok()) return suite.failed(name, profiles.status());
  if (suite.options().smoke) workload->resize(10);
  suite.measure(ValueSpec{
      .name = name,
      .unit = "jobs/s",
      .sample = [&] { return simulated_jobs_per_second(*workload, *profiles); },
      .samples = suite.options().smoke ? 3 : 15,
      .target = Target{80, false},
      .note = "160 jobs on 64 GPUs, elastic policy, goodput; the target is 2 s for the workload"});
}

}  // namespace
}  // namespace ffdl::bench

int main(int argc, char** argv) {
  using namespace ffdl::bench;
  if (argc == 5 && std::string(argv[1]) == "--role") {  // the program is a worker of the live row
    const ffdl::Status trained = run_live_worker(std::strtoull(argv[3], nullptr, 10), argv[4]);
    if (!trained.ok()) fmt::print(stderr, "{}\n", trained.to_string());
    return trained.ok() ? 0 : 1;
  }
  return Suite::run("plan", argc, argv, [](Suite& suite) {
    const auto jobs = make_jobs(100, true);
    suite.self_check(PairSpec{.name = "plan",
                              .unit = "ms",
                              .figure = [](double seconds) { return 1e3 * seconds; },
                              .limit = plan_turn(jobs, 400),
                              .limit_is = "the plan of 100 jobs on 400 workers"});
    plan_row(suite, 100, 400, true, 2);
    plan_row(suite, 1000, 10'000, true, 50);
    plan_row(suite, 10'000, 100'000, false, 500);
    simulator_row(suite);
    live_row(suite);
  });
}
