#include "benchmarks/plan/live.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "benchmarks/harness/folder.h"
#include "benchmarks/plan/live_worker.h"
#include "cluster/autoscaler/autoscaler.h"
#include "cluster/simulator/simulator.h"
#include "ffdl/cluster/autoscaler.h"
#include "ffdl/store.h"
#include "launch/supervisor.h"

namespace ffdl::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kWorkers = 4;
// The simulator's epochs end on whole seconds; one simulated second is a hundredth of a second
// here.
constexpr double kTick = 0.01;
constexpr auto kPatience = 5min;

struct LiveJob {
  std::string name;
  double arrives_s;
  uint64_t steps;
};

// The speeds with 1 to kWorkers workers, and the time until a worker trains.
struct Speeds {
  std::vector<double> step_s;
  double begin_s = 0;
};

class LiveCluster {
 public:
  static Result<std::unique_ptr<LiveCluster>> open() {
    auto cluster = std::make_unique<LiveCluster>();
    FFDL_ASSIGN_OR_RETURN(cluster->folder_, make_folder());
    FFDL_ASSIGN_OR_RETURN(cluster->server_,
                          StoreServer::start({.folder = cluster->folder_ + "/store"}));
    FFDL_ASSIGN_OR_RETURN(cluster->store_, open_store(cluster->server_->url(), system_runtime()));
    return cluster;
  }

  ~LiveCluster() {
    store_.reset();
    server_.reset();
    std::error_code ignored;  // a file left in the folder for temporary files does no harm
    std::filesystem::remove_all(folder_, ignored);
  }

  Store& store() { return *store_; }

  // Runs a job from its first worker to its last.
  Status train(const std::string& name, uint64_t steps, int min_workers, int first_workers) {
    const auto exited = system_runtime().make_event();
    FFDL_ASSIGN_OR_RETURN(const auto launcher, launch::make_local_launcher(*exited));
    launch::SupervisorOptions options{
        .job = name,
        .command = {"/proc/self/exe", "--role", "live", std::to_string(steps), folder_},
        .min_workers = min_workers,
        .max_workers = std::max(min_workers, kWorkers),
        .first_workers = first_workers,
        .workers_per_node = kWorkers,
        .log_folder = folder_,
        .store_url = server_->url()};
    FFDL_ASSIGN_OR_RETURN(
        const auto supervisor,
        launch::Supervisor::start(*store_, system_runtime(), *launcher, *exited, options));
    return supervisor->run();
  }

  // Measures jobs of a fixed size each.
  Result<Speeds> measure_speeds(uint64_t steps) {
    Speeds speeds;
    for (int workers = 1; workers <= kWorkers; ++workers) {
      const std::string name = fmt::format("alone-{}", workers);
      const double before =
          std::chrono::duration<double>(deadline_in({}).time_since_epoch()).count();
      FFDL_RETURN_IF_ERROR(train(name, steps, workers, workers));
      double step_ms = 0, began_s = 0;
      if (!(std::ifstream(folder_ + "/" + name + ".worker-0") >> step_ms >> began_s)) {
        return Status(StatusCode::kInternal, "measure a step: the worker wrote nothing");
      }
      speeds.step_s.push_back(step_ms / 1e3);
      speeds.begin_s = std::max(speeds.begin_s, began_s - before);
    }
    return speeds;
  }

 private:
  std::string folder_;
  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<Store> store_;
};

// Returns the seconds from each job's arrival to its end, under the autoscaler.
Result<std::vector<double>> run_live(LiveCluster& cluster, const std::vector<LiveJob>& jobs,
                                     const Speeds& speeds, Duration switch_cost) {
  std::vector<double> took(jobs.size());
  std::vector<Status> outcomes(jobs.size());
  FFDL_RETURN_IF_ERROR(offer_workers(cluster.store(), "here", kWorkers));
  const auto autoscaler = system_runtime().spawn("autoscaler", [&](const StopToken& stop) {
    static_cast<void>(
        run_autoscaler(cluster.store(), system_runtime(), {.switch_cost = switch_cost}, stop));
  });
  const auto run_one = [&](const LiveJob& job, double& seconds) -> Status {
    JobRequest request{.name = job.name};
    for (int k = 1; k <= kWorkers; ++k) {
      request.sizes.push_back(
          {k, speeds.step_s[0] / speeds.step_s[static_cast<size_t>(k) - 1], kLiveBatch});
    }
    const Time begin = deadline_in({});
    FFDL_ASSIGN_OR_RETURN(const auto ticket,
                          JobTicket::enter(cluster.store(), system_runtime(), request));
    FFDL_ASSIGN_OR_RETURN(const JobAllocation admitted,
                          ticket->wait_until_admitted(deadline_in(kPatience)));
    FFDL_RETURN_IF_ERROR(cluster.train(job.name, job.steps, 1, admitted.workers));
    seconds = std::chrono::duration<double>(deadline_in({}) - begin).count();
    return {};
  };
  {
    std::vector<std::unique_ptr<Task>> tasks;
    const Time start = deadline_in({});
    for (size_t i = 0; i < jobs.size(); ++i) {
      tasks.push_back(system_runtime().spawn(jobs[i].name, [&, i](const StopToken&) {
        const std::chrono::duration<double> arrives(jobs[i].arrives_s);
        system_runtime().make_event()->wait_until(start +
                                                  std::chrono::duration_cast<Duration>(arrives));
        outcomes[i] = run_one(jobs[i], took[i]);
      }));
    }
  }  // all jobs have ended here
  for (const Status& outcome : outcomes) FFDL_RETURN_IF_ERROR(outcome);
  return took;
}

// Returns the simulator's prediction of these seconds.
Result<std::vector<double>> predict(const std::vector<LiveJob>& jobs, const Speeds& speeds) {
  std::map<std::string, cluster::ApplicationProfile> profiles;
  std::vector<cluster::WorkloadJob> workload;
  for (const LiveJob& job : jobs) {
    cluster::ApplicationProfile& profile = profiles[job.name];
    profile.name = job.name;
    for (int k = 1; k <= kWorkers; ++k) {
      const double step = speeds.step_s[static_cast<size_t>(k) - 1] / kTick;
      profile.placed.push_back({{k}, static_cast<int64_t>(kLiveBatch) / k, step, 0});
    }
    profile.epochs[kLiveBatch] = {{static_cast<double>(job.steps), 1, 1}};
    workload.push_back({job.name, job.name, job.arrives_s / kTick, kWorkers, kLiveBatch});
  }
  cluster::ClusterOptions options;
  options.nodes = 1;
  options.gpus_per_node = kWorkers;
  options.objective = cluster::PlanObjective::kThroughput;
  options.known_speeds = true;
  options.interval_s = 0.05 / kTick;
  options.restart_s = speeds.begin_s / kTick;
  FFDL_ASSIGN_OR_RETURN(const cluster::ClusterReport report,
                        cluster::simulate_cluster(workload, profiles, options));
  std::vector<double> took;
  for (const cluster::JobOutcome& job : report.jobs) {
    took.push_back((job.completed_s - job.submitted_s) * kTick);
  }
  return took;
}

}  // namespace

void live_row(Suite& suite) {
  const std::string name = "live/completion_error";
  if (!suite.wants(name)) return;
  const bool smoke = suite.options().smoke;
  const uint64_t scale = smoke ? 1 : 20;
  const std::vector<LiveJob> jobs = {{"first", 0, 20 * scale},
                                     {"second", 0.2 * static_cast<double>(scale), 8 * scale},
                                     {"third", 0.3 * static_cast<double>(scale), 12 * scale}};
  std::string note;
  const auto sample = [&]() -> Result<double> {
    FFDL_ASSIGN_OR_RETURN(const auto cluster, LiveCluster::open());
    FFDL_ASSIGN_OR_RETURN(const Speeds speeds, cluster->measure_speeds(smoke ? 5 : 50));
    const auto cost =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(speeds.begin_s));
    FFDL_ASSIGN_OR_RETURN(const auto measured, run_live(*cluster, jobs, speeds, cost));
    FFDL_ASSIGN_OR_RETURN(const auto predicted, predict(jobs, speeds));
    double worst = 0;
    for (size_t i = 0; i < jobs.size(); ++i) {
      worst = std::max(worst, 100 * std::abs(measured[i] / predicted[i] - 1));
      fmt::print(stderr, "  {}: {:.2f} s, predicted {:.2f} s\n", jobs[i].name, measured[i],
                 predicted[i]);
    }
    return worst;
  };
  suite.measure(ValueSpec{.name = name,
                          .unit = "%",
                          .sample = sample,
                          .samples = smoke ? 1 : 3,
                          .warm_up = 0,
                          .target = Target{10, true},
                          .note = "of the worst of three jobs on four workers, against the "
                                  "simulation with the measured times of steps"});
}

}  // namespace ffdl::bench
