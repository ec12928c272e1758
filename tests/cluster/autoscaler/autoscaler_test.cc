// Runs the autoscaler, jobs and the supervisors' records in simulated time. The store is slow
// and loses messages; autoscalers and jobs are killed.
#include "cluster/autoscaler/autoscaler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "cluster/autoscaler/autoscaler_records.h"
#include "ffdl/cluster/autoscaler.h"
#include "ffdl/launch/running_job.h"
#include "launch/node_board.h"
#include "sim/faulty_store.h"
#include "sim/sim_runtime.h"
#include "store/local/memory_store.h"
#include "support/forwarding_store.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using sim::SimNode;

constexpr int kWorkersMax = 4;  // of a job

JobRequest request(const std::string& name) {
  JobRequest request{name};
  for (int k = 1; k <= kWorkersMax; ++k) request.sizes.push_back({k, std::sqrt(k), 0});
  return request;
}

class Cluster;

// Behaves as `ffdl run --autoscale` and its supervisor; its workers are only numbers.
class SimulatedJob {
 public:
  SimulatedJob(Cluster& cluster, std::string name, double work_s);
  ~SimulatedJob() { task_.reset(); }

  SimNode& node() { return node_; }
  int processes() const { return processes_; }
  int most() const { return most_; }
  bool has_ended() const { return has_ended_; }
  void kill();

 private:
  void live();
  void train(JobTicket& ticket, int workers);
  NodeStatus status(int wanted) const;

  Cluster& cluster_;
  const std::string name_;
  SimNode& node_;
  sim::FaultyStore store_;
  double work_s_;
  int processes_ = 0;
  int most_ = 0;
  bool has_ended_ = false;
  std::unique_ptr<Task> task_;
};

class Cluster {
 public:
  explicit Cluster(uint64_t seed) : runtime_(seed, stacks_) {}

  // Runs `body` in the simulation, with an autoscaler.
  void run(int workers, const std::function<void()>& body) {
    workers_ = workers;
    const std::string outcome = runtime_.run([&] {
      clock_ = &runtime_.make_node("store");
      inner_ = std::make_unique<store::MemoryStore>(*clock_);
      ASSERT_OK(offer_workers(*inner_, "node", workers));
      start_autoscaler();
      body();
      end_autoscaler(false);
      jobs_.clear();
      autoscalers_.clear();
      inner_.reset();
    });
    EXPECT_EQ(outcome, "");
  }

  void start_autoscaler() { autoscalers_.push_back(std::make_unique<Scaler>(*this)); }
  // Ends the autoscaler gracefully, or as by SIGKILL.
  void end_autoscaler(bool is_killed) {
    Scaler& scaler = *autoscalers_.back();
    if (is_killed) scaler.node.kill();
    scaler.task.reset();
  }
  // Pauses the autoscaler as by SIGSTOP, at any point of its work, and starts another one.
  void pause_autoscaler(Duration time) {
    autoscalers_.back()->node.pause_until(runtime_.elapsed() + time);
    start_autoscaler();
  }
  SimulatedJob& submit(const std::string& name, double work_s) {
    return *jobs_.emplace_back(std::make_unique<SimulatedJob>(*this, name, work_s));
  }

  // Checks the limit of workers. Called whenever a number of processes has changed.
  void check() const {
    int processes = 0;
    for (const auto& job : jobs_) processes += job->processes();
    EXPECT_LE(processes, workers_) << "after " << runtime_.elapsed() / 1ms << " ms";
  }
  bool comes_true(const std::function<bool()>& condition) {
    const Duration patience = runtime_.elapsed() + 10min;
    while (!condition() && runtime_.elapsed() < patience) runtime_.sleep(50ms);
    return condition();
  }
  bool all_have_ended() const {
    return std::all_of(jobs_.begin(), jobs_.end(),
                       [](const auto& job) { return job->has_ended(); });
  }

  sim::SimRuntime& runtime() { return runtime_; }
  SimNode& clock() { return *clock_; }
  Store& store() { return *inner_; }
  sim::Faults& faults() { return faults_; }

 private:
  struct Scaler {
    explicit Scaler(Cluster& cluster)
        : node(cluster.runtime_.make_node("autoscaler")),
          store(*cluster.inner_, *cluster.clock_, cluster.runtime_, node, cluster.faults_,
                sim::Mutant::kNone, [](Revision, const Entry&) {}),
          task(node.spawn("autoscaler", [this](const StopToken& stop) {
            const Status ended = run_autoscaler(store, node, {.interval = 10s}, stop);
            EXPECT_EQ(ended.code(), StatusCode::kCancelled) << ended.message();
          })) {}

    SimNode& node;
    sim::FaultyStore store;
    std::unique_ptr<Task> task;
  };

  sim::Stacks stacks_;
  sim::SimRuntime runtime_;
  SimNode* clock_ = nullptr;
  sim::Faults faults_;
  std::unique_ptr<store::MemoryStore> inner_;
  int workers_ = 0;
  std::vector<std::unique_ptr<Scaler>> autoscalers_;
  std::vector<std::unique_ptr<SimulatedJob>> jobs_;
};

SimulatedJob::SimulatedJob(Cluster& cluster, std::string name, double work_s)
    : cluster_(cluster),
      name_(std::move(name)),
      node_(cluster.runtime().make_node(name_)),
      store_(cluster.store(), cluster.clock(), cluster.runtime(), node_, cluster.faults(),
             sim::Mutant::kNone, [](Revision, const Entry&) {}),
      work_s_(work_s),
      task_(node_.spawn("job", [this](const StopToken&) { live(); })) {}

void SimulatedJob::kill() {
  node_.kill();  // its workers die with the node
  processes_ = 0;
}

void SimulatedJob::live() {
  while (!node_.is_killed()) {
    const auto ticket = JobTicket::enter(store_, node_, request(name_));
    if (!ticket.ok()) {  // the store did not answer
      cluster_.runtime().sleep(100ms);
      continue;
    }
    while (!node_.is_killed()) {
      const auto admitted = (*ticket)->wait_until_admitted(node_.now() + 1s);
      if (admitted.ok()) return train(**ticket, admitted->workers);
    }
  }
  has_ended_ = true;
}

NodeStatus SimulatedJob::status(int wanted) const {
  NodeStatus status{0, 1, 1, kWorkersMax};
  for (int i = 0; i < kWorkersMax; ++i) {
    const char* phase = i >= processes_ ? "idle" : i < wanted ? "running" : "stopping";
    status.workers.push_back({"worker-" + std::to_string(i), phase, 1, 0});
  }
  return status;
}

void SimulatedJob::train(JobTicket&, int workers) {
  const auto bell = node_.make_event();
  launch::NodeBoard board(store_, node_, *bell, name_);
  while (!board.open(status(workers), workers).ok() && !node_.is_killed()) {
    cluster_.runtime().sleep(100ms);
  }
  while (work_s_ > 0 && !node_.is_killed()) {
    const int wanted = static_cast<int>(board.view().wanted.size());
    cluster_.runtime().sleep(cluster_.runtime().up_to(1s));  // starting and ending take a while
    if (node_.is_killed()) break;
    if (processes_ < wanted) ++processes_;
    if (processes_ > wanted) --processes_;
    most_ = std::max(most_, processes_);
    cluster_.check();
    board.publish(status(wanted));
    work_s_ -= std::sqrt(processes_);
  }
  if (!node_.is_killed()) processes_ = 0;
  static_cast<void>(board.close(node_.is_killed() ? "" : "done"));
  has_ended_ = true;
}

TEST(Autoscaler, ArrivalsShrinkTheOthersAndCompletionsGrowThem) {
  Cluster cluster(1);
  cluster.run(4, [&] {
    SimulatedJob& first = cluster.submit("first", 200);
    ASSERT_TRUE(cluster.comes_true([&] { return first.processes() == 4; }));
    SimulatedJob& second = cluster.submit("second", 20);
    ASSERT_TRUE(
        cluster.comes_true([&] { return first.processes() == 2 && second.processes() == 2; }));
    ASSERT_TRUE(cluster.comes_true([&] { return second.has_ended(); }));
    EXPECT_TRUE(cluster.comes_true([&] { return first.processes() == 4; }));
    EXPECT_TRUE(cluster.comes_true([&] { return first.has_ended(); }));
  });
}

TEST(Autoscaler, NodesComeAndGo) {
  Cluster cluster(2);
  cluster.run(4, [&] {
    ASSERT_OK(offer_workers(cluster.store(), "node", 1));
    SimulatedJob& job = cluster.submit("job", 1e6);
    ASSERT_TRUE(cluster.comes_true([&] { return job.processes() == 1; }));
    ASSERT_OK(offer_workers(cluster.store(), "other", 3));
    ASSERT_TRUE(cluster.comes_true([&] { return job.processes() == 4; }));
    ASSERT_OK(offer_workers(cluster.store(), "other", 1));
    ASSERT_TRUE(cluster.comes_true([&] { return job.processes() == 2; }));
    ASSERT_OK(scale_job(cluster.store(), "job", 4));  // another client, overruled
    EXPECT_TRUE(cluster.comes_true(
        [&] { return read_run(cluster.store(), "job")->wanted_workers.size() == 2; }));
    job.kill();
  });
}

TEST(Autoscaler, ASecondOneStandsByUntilTheFirstIsKilled) {
  Cluster cluster(3);
  cluster.run(4, [&] {
    SimulatedJob& job = cluster.submit("job", 1e6);
    ASSERT_TRUE(cluster.comes_true([&] { return job.processes() == 4; }));
    const Revision before = cluster.store().get("ffdl-jobs/autoscaler")->revision;
    cluster.end_autoscaler(true);
    cluster.start_autoscaler();  // the lease of the dead autoscaler has not ended yet
    SimulatedJob& other = cluster.submit("other", 1e6);
    ASSERT_TRUE(cluster.comes_true([&] { return other.processes() == 2; }));
    EXPECT_GT(cluster.store().get("ffdl-jobs/autoscaler")->revision, before);
    EXPECT_EQ(job.processes(), 2);
    job.kill();
    other.kill();
  });
}

TEST(Autoscaler, AKilledJobLeavesItsWorkersToOthers) {
  Cluster cluster(4);
  cluster.run(1, [&] {
    SimulatedJob& job = cluster.submit("job", 1e6);
    ASSERT_TRUE(cluster.comes_true([&] { return job.processes() == 1; }));
    SimulatedJob& other = cluster.submit("other", 10);
    cluster.runtime().sleep(10s);
    EXPECT_EQ(other.most(), 0);
    job.kill();
    EXPECT_TRUE(cluster.comes_true([&] { return other.has_ended(); }));
    EXPECT_EQ(other.most(), 1);
  });
}

// Holds for any kill and any lost message: there are never more processes than workers. All live
// jobs end, and none of their records remain.
TEST(Autoscaler, SurvivesKillsAndLostMessages) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Cluster cluster(seed);
    cluster.run(static_cast<int>(2 + seed % 5), [&] {
      sim::SimRuntime& runtime = cluster.runtime();
      cluster.faults() = {.delay_max = 300ms, .lose_request = 0.05, .lose_reply = 0.05};
      std::vector<SimulatedJob*> jobs;
      for (int i = 0; i < 8; ++i) {
        jobs.push_back(&cluster.submit("job-" + std::to_string(i),
                                       10 + static_cast<double>(runtime.below(100))));
        runtime.sleep(runtime.up_to(20s));
        if (runtime.chance(0.3)) {
          cluster.end_autoscaler(true);
          cluster.start_autoscaler();
        }
        if (runtime.chance(0.3)) cluster.pause_autoscaler(runtime.up_to(12s));
        if (runtime.chance(0.2)) jobs[runtime.below(jobs.size())]->kill();
      }
      cluster.faults() = {};
      EXPECT_TRUE(cluster.comes_true([&] { return cluster.all_have_ended(); }));
      EXPECT_TRUE(
          cluster.comes_true([&] { return read_allocations(cluster.store())->jobs.empty(); }));
      EXPECT_EQ(cluster.store().list("ffdl-jobs/requests/")->size(), 0U);
    });
    if (::testing::Test::HasFailure()) return;
  }
}

// A store in which another autoscaler decides between the first read and the write that follows
// from it.
class OvertakingStore final : public testing::ForwardingStore {
 public:
  OvertakingStore(Store& inner, StopSource& stop) : ForwardingStore(inner), stop_(stop) {}

  bool was_overtaken() const { return was_overtaken_; }
  int looks_since() const { return looks_since_; }

  Result<std::vector<Entry>> list(std::string_view prefix) override {
    auto seen = inner_.list(prefix);
    if (prefix != cluster::kPrefix) return seen;
    looks_since_ += was_overtaken_ ? 1 : 0;
    if (!was_overtaken_) EXPECT_OK(inner_.put(cluster::kAnswers, "[]"));
    was_overtaken_ = true;
    return seen;
  }
  Result<Revision> compare_and_put(std::string_view key, Revision expected, std::string_view value,
                                   LeaseId lease) override {
    const auto put = inner_.compare_and_put(key, expected, value, lease);
    if (put.ok() && key == cluster::kAnswers) stop_.request_stop();
    return put;
  }

 private:
  StopSource& stop_;
  bool was_overtaken_ = false;
  int looks_since_ = 0;
};

TEST(Autoscaler, ADecisionOnAnOldLookChangesNothing) {
  ASSERT_OK_AND_ASSIGN(const auto inner, open_store("mem://", system_runtime()));
  ASSERT_OK(offer_workers(*inner, "node", 1));
  ASSERT_OK_AND_ASSIGN(const auto ticket,
                       JobTicket::enter(*inner, system_runtime(), request("job")));
  StopSource stop;
  OvertakingStore store(*inner, stop);
  EXPECT_FAILS(run_autoscaler(store, system_runtime(), {}, stop.get_token()),
               StatusCode::kCancelled, "");
  EXPECT_TRUE(store.was_overtaken());
  EXPECT_GE(store.looks_since(), 1);  // it read again before it wrote
}

TEST(Autoscaler, RefusesWhatMakesNoSense) {
  const auto store = open_store("mem://", system_runtime());
  ASSERT_OK(store);
  EXPECT_FAILS(offer_workers(**store, "a", -1), StatusCode::kInvalidArgument, "give 0 or more");
  EXPECT_FAILS(offer_workers(**store, "", 1), StatusCode::kInvalidArgument, "a name");
  EXPECT_FAILS(run_autoscaler(**store, system_runtime(), {.interval = 0s}, {}),
               StatusCode::kInvalidArgument, "an interval of 0 s");
}

}  // namespace
}  // namespace ffdl
