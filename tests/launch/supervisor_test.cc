#include "launch/supervisor.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <functional>
#include <set>

#include "ffdl/launch/running_job.h"
#include "ffdl/membership.h"
#include "launch/launch_records.h"
#include "support/programs.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::launch {
namespace {

using namespace std::chrono_literals;

// Runs one node of a job in a task; the test changes the world around it.
class Node {
 public:
  Node(Store& store, SupervisorOptions options) {
    auto launcher = make_local_launcher(*exited_);
    EXPECT_OK(launcher);
    launcher_ = std::move(launcher).value();
    auto supervisor = Supervisor::start(store, system_runtime(), *launcher_, *exited_, options);
    EXPECT_OK(supervisor);
    supervisor_ = std::move(supervisor).value();
    task_ = system_runtime().spawn("node", [this](const StopToken&) {
      outcome_ = supervisor_->run();
      ended_->set();
    });
  }
  ~Node() { supervisor_->kill(); }

  Supervisor& supervisor() { return *supervisor_; }
  Status outcome() {
    EXPECT_TRUE(ended_->wait_until(deadline_in(60s)));
    task_.reset();
    return outcome_;
  }

 private:
  const std::unique_ptr<Event> exited_ = system_runtime().make_event();
  const std::unique_ptr<Event> ended_ = system_runtime().make_event();
  std::unique_ptr<Launcher> launcher_;
  std::unique_ptr<Supervisor> supervisor_;
  Status outcome_;
  std::unique_ptr<Task> task_;
};

class SupervisorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string url = "tcp://" + folder_.path() + "/store";
    auto opened = open_store(url, system_runtime());
    ASSERT_OK(opened);
    store_ = std::move(opened).value();
    options_.store_url = url;
    options_.log_folder = folder_.path();
  }
  void run_shell(const std::string& script) { options_.command = {"sh", "-c", script}; }
  void run_members() { options_.command = {kMemberWorker}; }
  std::string log_of(const std::string& id) const {
    std::ifstream file(folder_.file(id + ".log"));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool comes_true(const std::function<bool()>& condition) {
    const Time patience = deadline_in(60s);
    const auto never = system_runtime().make_event();
    while (!condition()) {
      if (deadline_in(0s) > patience) return false;
      never->wait_until(deadline_in(5ms));
    }
    return true;
  }
  // Returns true if the world is active and has these members, all of which are alive.
  bool has_world_of(std::set<std::string> ids) {
    const auto job = read_job(*store_, options_.job);
    if (!job.ok() || job->world.phase != Phase::kActive) return false;
    std::set<std::string> there;
    for (const MemberStatus& one : job->members) {
      if (!one.is_alive || one.rank < 0) return false;
      there.insert(one.member.id);
    }
    return there == ids && job->world.generation > 0;
  }
  WorkerStatus worker(size_t index) {
    const auto run = read_run(*store_, options_.job);
    EXPECT_OK(run);
    return run->nodes.empty() ? WorkerStatus{} : run->nodes[0].workers[index];
  }
  // Waits until the worker runs, and sends it a signal. It may have been idle, with its new life
  // not recorded yet. Returns its process.
  int64_t signal_once_it_runs(size_t index, int number) {
    const bool runs = comes_true([&] { return worker(index).phase == "running"; });
    EXPECT_TRUE(runs);
    const int64_t process = worker(index).process;
    if (runs) ::kill(static_cast<pid_t>(process), number);
    return process;
  }

  const TempFolder folder_;
  std::unique_ptr<Store> store_;
  SupervisorOptions options_{.max_workers = 2, .workers_per_node = 2};
};

TEST_F(SupervisorTest, AJobIsDoneWhenAllHaveFinished) {
  run_shell(
      "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $FFDL_WORKER_ID $FFDL_JOB "
      "$FFDL_MIN_WORKERS:$FFDL_MAX_WORKERS $TORCHELASTIC_RESTART_COUNT [$FFDL_LEDGER_LOG]");
  Node node(*store_, options_);
  EXPECT_OK(node.outcome());
  EXPECT_EQ(log_of("worker-0"), "0/2 0/2 worker-0 job 1:2 0 []\n");
  EXPECT_EQ(log_of("worker-1"), "1/2 1/2 worker-1 job 1:2 0 []\n");
}

TEST_F(SupervisorTest, BeginsWithAsManyAsItIsTold) {
  run_shell("echo $RANK/$WORLD_SIZE");
  options_.first_workers = 1;
  {
    Node node(*store_, options_);
    EXPECT_OK(node.outcome());
  }
  EXPECT_EQ(log_of("worker-0"), "0/1\n");
  EXPECT_EQ(log_of("worker-1"), "");
  options_.first_workers = 3;
  const auto exited = system_runtime().make_event();
  ASSERT_OK_AND_ASSIGN(const auto launcher, make_local_launcher(*exited));
  EXPECT_FAILS(Supervisor::start(*store_, system_runtime(), *launcher, *exited, options_),
               StatusCode::kInvalidArgument, "3 workers at the start, but the job has 1 to 2");
}

TEST_F(SupervisorTest, TakesTheWorkersOfAFreeNode) {
  run_shell("echo $RANK/$GROUP_RANK");
  options_.max_workers = 6;
  options_.min_workers = 2;
  options_.workers_per_node = 2;
  options_.takes_free_node = true;
  options_.node = 1;
  Node first(*store_, options_);
  Node second(*store_, options_);
  EXPECT_EQ(first.supervisor().node(), 1);
  EXPECT_EQ(second.supervisor().node(), 2);
  EXPECT_OK(first.outcome());
  EXPECT_OK(second.outcome());
  EXPECT_EQ(log_of("worker-0"), "");
  EXPECT_EQ(log_of("worker-3"), "3/1\n");
  EXPECT_EQ(log_of("worker-4"), "4/2\n");
}

TEST_F(SupervisorTest, WhoFailsIsStartedAgainSoOften) {
  options_.max_restarts = 2;
  // The other one fails when the first has begun.
  run_shell("echo life $TORCHELASTIC_RESTART_COUNT; [ $RANK = 0 ] && exit; until [ -s " +
            folder_.file("worker-0.log") + " ]; do sleep 0.01; done; exit 4");
  options_.min_workers = 2;
  Node node(*store_, options_);
  EXPECT_FAILS(node.outcome(), StatusCode::kExhausted, "1 of 2 workers failed");
  EXPECT_EQ(log_of("worker-1"), "life 0\nlife 1\nlife 2\n");
  EXPECT_EQ(log_of("worker-0"), "life 0\n");
}

TEST_F(SupervisorTest, TheOthersGoOnWithoutTheLost) {
  options_.max_restarts = 0;
  run_shell("[ $RANK = 0 ] || exit 4; echo went on");
  Node node(*store_, options_);
  EXPECT_OK(node.outcome());
  EXPECT_EQ(log_of("worker-0"), "went on\n");
}

TEST_F(SupervisorTest, WhatCannotStartEndsIt) {
  options_.command = {"no-such-program"};
  Node node(*store_, options_);
  EXPECT_FAILS(node.outcome(), StatusCode::kNotFound, "no-such-program");
}

TEST_F(SupervisorTest, AKilledWorkerHasANewLifeInTheJob) {
  run_members();
  options_.min_workers = 2;
  Node node(*store_, options_);
  ASSERT_TRUE(comes_true([&] { return has_world_of({"worker-0", "worker-1"}); }));
  const int64_t process = signal_once_it_runs(1, SIGKILL);
  ASSERT_TRUE(comes_true([&] {
    const auto life = last_incarnation(*store_, "job", "worker-1");
    return life.ok() && *life == 2 && has_world_of({"worker-0", "worker-1"});
  }));
  // Another thread of the supervisor writes the record: the new life may join before.
  EXPECT_TRUE(comes_true([&] { return worker(1).process != process; }));
  EXPECT_EQ(worker(1).restarts, 1);
  node.supervisor().stop();
  EXPECT_FAILS(node.outcome(), StatusCode::kCancelled, "asked to stop");
}

// No state holder survives. Without the reports the job would wait for the members' fence.
TEST_F(SupervisorTest, WhenAllAreKilledTheJobBeginsAnewAtOnce) {
  run_members();
  Node node(*store_, options_);
  ASSERT_TRUE(comes_true([&] { return has_world_of({"worker-0", "worker-1"}); }));
  const Time killed = deadline_in(0s);
  // Stopped, worker 1 hands no state to the next life of worker 0 before it is killed.
  signal_once_it_runs(1, SIGSTOP);
  signal_once_it_runs(0, SIGKILL);
  signal_once_it_runs(1, SIGKILL);
  ASSERT_TRUE(comes_true([&] {
    const auto job = read_job(*store_, "job");
    return job.ok() && job->world.lineage == 2 && job->world.phase == Phase::kActive;
  }));
  EXPECT_LT(deadline_in(0s) - killed, 30s);  // the fence time of member_worker
}

TEST_F(SupervisorTest, ScalesDownAndUp) {
  run_members();
  options_.max_workers = options_.workers_per_node = 3;
  Node node(*store_, options_);
  ASSERT_TRUE(comes_true([&] { return has_world_of({"worker-0", "worker-1", "worker-2"}); }));
  ASSERT_OK(scale_job(*store_, "job", 2));
  ASSERT_OK(scale_job(*store_, "job", 1));  // replaces the first request
  ASSERT_TRUE(comes_true([&] { return has_world_of({"worker-0"}); }));
  ASSERT_TRUE(comes_true([&] { return worker(2).phase == "idle" && worker(1).phase == "idle"; }));
  EXPECT_EQ(worker(2).restarts, 0);
  ASSERT_OK(scale_job(*store_, "job", 2));
  ASSERT_TRUE(comes_true([&] { return has_world_of({"worker-0", "worker-1"}); }));
  EXPECT_EQ(last_incarnation(*store_, "job", "worker-0").value(), 1U) << "it was disturbed";
}

TEST_F(SupervisorTest, AWorkerHandsItsPlaceOver) {
  run_members();
  options_.max_workers = options_.workers_per_node = 3;
  Node node(*store_, options_);
  ASSERT_TRUE(comes_true([&] { return has_world_of({"worker-0", "worker-1", "worker-2"}); }));
  ASSERT_OK(scale_job(*store_, "job", 2));
  ASSERT_TRUE(comes_true(
      [&] { return has_world_of({"worker-0", "worker-1"}) && worker(2).phase == "idle"; }));
  const uint64_t before = read_job(*store_, "job")->world.generation;
  EXPECT_EQ(migrate_worker(*store_, "job", 0).value(), 2);
  ASSERT_TRUE(comes_true(
      [&] { return has_world_of({"worker-2", "worker-1"}) && worker(0).phase == "idle"; }));
  const World world = read_job(*store_, "job")->world;
  EXPECT_EQ(world.generation, before + 1);
  EXPECT_EQ(worker(0).restarts, 0);
  EXPECT_EQ(log_of("worker-0"), "joined as life 1\n");
  // Moves back, to a new life of worker 0.
  EXPECT_EQ(migrate_worker(*store_, "job", 2, 0).value(), 0);
  ASSERT_TRUE(comes_true(
      [&] { return has_world_of({"worker-0", "worker-1"}) && worker(2).phase == "idle"; }));
  EXPECT_EQ(read_job(*store_, "job")->world.generation, before + 2);
  EXPECT_EQ(last_incarnation(*store_, "job", "worker-1").value(), 1U) << "it was disturbed";
  node.supervisor().stop();
  EXPECT_FAILS(node.outcome(), StatusCode::kCancelled, "asked to stop");
}

// The environment of each life names the worker that it replaces, which runs on meanwhile.
TEST_F(SupervisorTest, WhoFailsBeforeItTookOverIsStartedAgain) {
  options_.max_workers = options_.workers_per_node = 2;
  options_.min_workers = 1;
  run_shell(
      "echo rank $RANK of $WORLD_SIZE from \"$FFDL_TAKES_OVER_FROM\"; "
      "[ $FFDL_WORKER_ID = worker-0 ] && exec sleep 1000; "
      "[ $TORCHELASTIC_RESTART_COUNT = 0 ] && exit 3; exec sleep 1000");
  const auto kept = [&] { return worker(1).restarts == 1 && worker(1).phase == "running"; };
  Node node(*store_, options_);
  ASSERT_TRUE(comes_true(kept));
  ASSERT_OK(scale_job(*store_, "job", 1));
  ASSERT_TRUE(comes_true([&] { return worker(1).phase == "idle"; }));
  const int64_t process = worker(0).process;
  EXPECT_EQ(migrate_worker(*store_, "job", 0).value(), 1);
  const std::string line = "rank 0 of 1 from worker-0\n";
  ASSERT_TRUE(comes_true([&] { return log_of("worker-1").ends_with(line); }));
  signal_once_it_runs(1, SIGKILL);
  ASSERT_TRUE(comes_true([&] { return worker(1).restarts == 2 && worker(1).phase == "running"; }));
  EXPECT_EQ(worker(0).process, process);
  EXPECT_EQ(worker(0).phase, "running");
  EXPECT_TRUE(comes_true([&] { return log_of("worker-1").ends_with(line + line); }))
      << log_of("worker-1");
}

TEST_F(SupervisorTest, StopIsAGracefulLeaveOfAll) {
  run_members();
  Node node(*store_, options_);
  ASSERT_TRUE(comes_true([&] { return has_world_of({"worker-0", "worker-1"}); }));
  node.supervisor().stop();
  EXPECT_FAILS(node.outcome(), StatusCode::kCancelled, "asked to stop");
  EXPECT_EQ(log_of("worker-0").find("Cancelled"), std::string::npos) << log_of("worker-0");
  EXPECT_OK(store_->get("ffdl/job/who/dead/worker-0"));  // it reported its own end
}

TEST_F(SupervisorTest, KillDoesNotWait) {
  options_.grace = 1h;
  run_shell("trap '' TERM; echo up; while :; do sleep 0.01; done");
  Node node(*store_, options_);
  ASSERT_TRUE(
      comes_true([&] { return log_of("worker-0") == "up\n" && log_of("worker-1") == "up\n"; }));
  node.supervisor().stop();
  ASSERT_TRUE(comes_true([&] { return worker(0).phase == "stopping"; }));
  node.supervisor().kill();
  EXPECT_FAILS(node.outcome(), StatusCode::kCancelled, "asked to stop");
}

TEST_F(SupervisorTest, NodesShareAJob) {
  options_.max_workers = options_.min_workers = 4;
  options_.max_restarts = 0;
  run_shell("echo $RANK $GROUP_RANK $LOCAL_RANK; [ $RANK != 3 ] || exit 1; sleep 1000");
  Node first(*store_, options_);
  options_.node = 1;
  Node second(*store_, options_);
  EXPECT_FAILS(second.outcome(), StatusCode::kExhausted, "1 of 4 workers failed");
  EXPECT_FAILS(first.outcome(), StatusCode::kExhausted, "workers failed");
  EXPECT_EQ(log_of("worker-3"), "3 1 1\n");
}

// Models the manager of a cluster, which may start more than this job.
class StrangeLauncher final : public Launcher {
 public:
  explicit StrangeLauncher(Event& exited) : exited_(exited) {
    for (const char* name : {"worker-2", "worker-99999999999999999999", "worker-", "other", ""}) {
      exits_.push_back({name, 1, 1, 0});
    }
  }
  Result<int64_t> start(const WorkerCommand& command) override {
    exits_.push_back({command.name, 1, 0, 0});
    exited_.set();
    return 1;
  }
  Status stop(std::string_view /*name*/, Duration /*grace*/) override { return {}; }
  void suspend(const Meanwhile& meanwhile) override { meanwhile(0); }
  std::optional<WorkerExit> poll_exit() override {
    if (exits_.empty()) return std::nullopt;
    WorkerExit first = std::move(exits_.front());
    exits_.erase(exits_.begin());
    return first;
  }

 private:
  Event& exited_;
  std::vector<WorkerExit> exits_;
};

TEST_F(SupervisorTest, EndsOfProcessesThatAreNoWorkersHereAreIgnored) {
  const auto exited = system_runtime().make_event();
  StrangeLauncher launcher(*exited);
  run_shell("true");
  ASSERT_OK_AND_ASSIGN(const auto supervisor,
                       Supervisor::start(*store_, system_runtime(), launcher, *exited, options_));
  EXPECT_OK(supervisor->run());
}

// Models a supervisor that was stopped for longer than its lease: another one has its node since.
TEST_F(SupervisorTest, OneThatHasLostItsNodeEndsItsWorkers) {
  run_shell("sleep 1000");
  Node node(*store_, options_);
  ASSERT_TRUE(comes_true([&] { return worker(0).phase == "running"; }));
  const std::string key = launch::Keys(options_.job).node(0);
  ASSERT_OK_AND_ASSIGN(const Entry own, store_->get(key));
  ASSERT_OK_AND_ASSIGN(const LeaseId lease, store_->grant_lease(1h));
  NodeStatus other{0, 815, 1, 2, {}};
  // The record comes first: a heartbeat between the two might find the node free.
  ASSERT_OK(store_->put(key, launch::encode(other), lease));
  ASSERT_OK(store_->end_lease(own.lease));
  EXPECT_FAILS(node.outcome(), StatusCode::kConflict, "another supervisor (process 815) has");
  EXPECT_EQ(store_->get(key)->value, launch::encode(other));
  EXPECT_FAILS(store_->get(launch::Keys(options_.job).outcome()), StatusCode::kNotFound, "");
}

TEST_F(SupervisorTest, OptionsThatCannotBeAreRefused) {
  const auto exited = system_runtime().make_event();
  ASSERT_OK_AND_ASSIGN(const auto launcher, make_local_launcher(*exited));
  run_shell("true");
  const auto expect_refused = [&](const SupervisorOptions& options, const char* text) {
    EXPECT_FAILS(Supervisor::start(*store_, system_runtime(), *launcher, *exited, options),
                 StatusCode::kInvalidArgument, text);
  };
  SupervisorOptions wrong = options_;
  wrong.job = "a/b";
  expect_refused(wrong, "'a/b'");
  wrong = options_;
  wrong.min_workers = 3;
  expect_refused(wrong, "3 to 2 workers");
  wrong = options_;
  wrong.node = 1;
  expect_refused(wrong, "node 1");
  wrong = options_;
  wrong.max_restarts = -1;
  expect_refused(wrong, "-1 restarts");
  wrong = options_;
  wrong.command.clear();
  expect_refused(wrong, "no program");
}

}  // namespace
}  // namespace ffdl::launch
