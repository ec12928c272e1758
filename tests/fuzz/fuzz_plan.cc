// Reads arbitrary bytes as each file of a plan and of a policy: jobs, workloads and traces,
// measured profiles, tables of throughputs, policies and their logs. They are refused, or make
// numbers that can be computed with. Measured profiles and workloads are simulated.
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "cluster/plan/job_file.h"
#include "cluster/simulator/simulator.h"
#include "cluster/simulator/synthetic_workload.h"
#include "cluster/simulator/throughput_table.h"
#include "cluster/simulator/trace_files.h"
#include "ffdl/cluster/job_planner.h"
#include "ffdl/scaling/elastic_policy.h"
#include "support/temp_folder.h"

namespace {

using namespace ffdl;
using namespace ffdl::cluster;

constexpr size_t kSimulatedMax = 32;  // jobs: a fuzzer wants short runs
constexpr double kHorizonS = 6000;
constexpr char kPlacements[] = "placement,local_bsz,step_time,sync_time\n1,8,1,0\n2,8,1,0.1\n";
constexpr char kEpochs[] = "progress,grad_sqr,grad_var\n100,1,1\n";

template <class T>
bool is_read(const Result<T>& read) {
  FFDL_CHECK(read.ok() || read.status().code() == StatusCode::kInvalidArgument,
             "the only thing wrong");
  return read.ok();
}

void check_jobs(const Result<std::vector<JobRequest>>& jobs) {
  if (!is_read(jobs)) return;
  for (const JobRequest& job : *jobs) {
    FFDL_CHECK(!job.sizes.empty(), "a job that is read has a size");
    for (const SizeOption& size : job.sizes) {
      FFDL_CHECK(size.workers > 0 && std::isfinite(size.value), "a size that can be planned with");
    }
  }
}

void check_workload(const Result<std::vector<WorkloadJob>>& jobs) {
  if (!is_read(jobs)) return;
  for (const WorkloadJob& job : *jobs) {
    FFDL_CHECK(job.workers > 0 && std::isfinite(job.submitted_s) && job.submitted_s >= 0,
               "a job that can arrive");
  }
}

// Simulates a workload as `ffdl simulate` does. Jobs without a program are given one.
void simulate_workload(std::vector<WorkloadJob> jobs,
                       const std::map<std::string, ApplicationProfile>& programs) {
  if (!draw_programs(jobs, programs, {.nodes = 2, .gpus_per_node = 4}).ok()) return;
  for (const ClusterPolicy policy : {ClusterPolicy::kFixed, ClusterPolicy::kElastic}) {
    const auto report = simulate_cluster(
        jobs, programs, {.nodes = 2, .gpus_per_node = 4, .policy = policy, .horizon_s = kHorizonS});
    FFDL_CHECK(report.ok() || report.status().code() == StatusCode::kInvalidArgument ||
                   report.status().code() == StatusCode::kExhausted,
               "a workload is simulated, or refused");
    if (!report.ok()) continue;
    FFDL_CHECK(report->jobs.size() == jobs.size(), "each job has an outcome");
    FFDL_CHECK(std::isfinite(report->makespan_s) && report->makespan_s >= 0, "it ends");
    FFDL_CHECK(report->utilisation >= 0 && report->utilisation <= 1 + 1e-9, "a share");
  }
}

void simulate(const TempFolder& folder) {
  const auto profiles = load_profiles(folder.file("profiles"));
  if (!is_read(profiles)) return;
  const std::vector<WorkloadJob> jobs = {
      {.name = "a", .application = "net", .workers = 1, .batch = 8}};
  static_cast<void>(simulate_cluster(
      jobs, *profiles, {.nodes = 2, .policy = ClusterPolicy::kFixed, .horizon_s = 6000}));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TempFolder folder;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static const auto programs = [] {
    folder.write("known/net/placements.csv", kPlacements);
    folder.write("known/net/validation-8.csv", kEpochs);
    return load_profiles(folder.file("known")).value();
  }();
  static const std::map<std::string, ApplicationProfile> unmeasured = {
      {"any", unmeasured_program("any", 8)}};
  const std::string file = folder.write("file", text);
  check_jobs(load_job_requests(file));
  const auto workload = load_workload(file);
  check_workload(workload);
  if (workload.ok() && workload->size() <= kSimulatedMax) {
    simulate_workload(*workload, programs);
    simulate_workload(*workload, unmeasured);
  }
  static_cast<void>(is_read(load_policy(file)));
  static_cast<void>(is_read(load_policy_trace(file)));
  folder.write("tables/net.csv", text);
  check_jobs(load_throughput_tables(folder.file("tables"), BatchChoice::kDynamic));
  static_cast<void>(is_read(load_throughput_profiles(folder.file("tables"))));
  folder.write("profiles/net/placements.csv", text);
  folder.write("profiles/net/validation-8.csv", kEpochs);
  simulate(folder);
  folder.write("profiles/net/placements.csv", kPlacements);
  folder.write("profiles/net/validation-8.csv", text);
  simulate(folder);
  return 0;
}
