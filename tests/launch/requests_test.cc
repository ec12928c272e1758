#include "launch/requests.h"

#include <gtest/gtest.h>

#include "launch/launch_records.h"
#include "launch/wanted_workers.h"
#include "support/status_matchers.h"

namespace ffdl::launch {
namespace {

NodeStatus node_without_workers() { return {2, 4711, 1, 8, {}}; }

TEST(ScaleJob, WithinWhatItWasStartedFor) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  EXPECT_FAILS(scale_job(*store, "job", 1), StatusCode::kNotFound, "it is not running");
  ASSERT_OK(store->put(Keys("job").node(2), encode(node_without_workers())));
  EXPECT_FAILS(scale_job(*store, "job", 0), StatusCode::kInvalidArgument, "1 to 8");
  EXPECT_FAILS(scale_job(*store, "job", 9), StatusCode::kInvalidArgument, "9 workers");
  ASSERT_OK(scale_job(*store, "job", 8));
  ASSERT_OK(scale_job(*store, "job", 1));
  EXPECT_EQ(store->get(Keys("job").wanted())->value, "1");
}

// Returns a node on which workers 4 and 6 run and worker 5 is idle.
NodeStatus node_of_three() {
  return {
      0,
      4711,
      1,
      7,
      {{"worker-4", "running", 1, 0}, {"worker-5", "idle", 0, 0}, {"worker-6", "running", 2, 0}}};
}

TEST(MigrateWorker, IntoAPlaceThatIsFree) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  const Keys keys("job");
  EXPECT_FAILS(migrate_worker(*store, "job", 1), StatusCode::kNotFound, "it is not running");
  ASSERT_OK(store->put(keys.node(0), encode(node_of_three())));
  ASSERT_OK(store->put(keys.wanted(), "2: 4 6"));
  EXPECT_FAILS(migrate_worker(*store, "job", 5), StatusCode::kInvalidArgument,
               "worker 5 is not wanted; name one of 4, 6");
  EXPECT_FAILS(migrate_worker(*store, "job", 4, 6), StatusCode::kInvalidArgument,
               "worker 6 is wanted itself");
  EXPECT_FAILS(migrate_worker(*store, "job", 4, 7), StatusCode::kInvalidArgument,
               "worker 7 is on no node");
  EXPECT_EQ(store->get(keys.wanted())->value, "2: 4 6");
  EXPECT_EQ(migrate_worker(*store, "job", 6).value(), 5);
  EXPECT_EQ(store->get(keys.wanted())->value, "2: 4 5<6");
  EXPECT_FAILS(migrate_worker(*store, "job", 4, 6), StatusCode::kInvalidArgument,
               "worker 6 is running");
  EXPECT_FAILS(migrate_worker(*store, "job", 4), StatusCode::kInvalidArgument,
               "a larger MAX of --workers MIN:MAX");
  ASSERT_OK(scale_job(*store, "job", 3));
  EXPECT_EQ(store->get(keys.wanted())->value, "3: 4 5<6 0");
}

RunStatus run_of(std::string_view wanted, std::vector<WorkerStatus> workers) {
  return {parse_wanted(wanted), {{0, 4711, 1, 7, std::move(workers)}}};
}

JobStatus job_of(Phase phase, std::vector<std::string> ids) {
  JobStatus job;
  job.world.generation = 7;
  job.world.phase = phase;
  for (std::string& id : ids) job.world.members.push_back({std::move(id)});
  return job;
}

TEST(ChangeUnderWay, Table) {
  const std::vector<WorkerStatus> both = {{"worker-0", "running"}, {"worker-1", "running"}};
  const std::vector<WorkerStatus> one = {{"worker-0", "running"}, {"worker-1", "idle"}};
  const JobStatus without_members;
  const JobStatus of_both = job_of(Phase::kActive, {"worker-0", "worker-1", "a guest"});
  const JobStatus of_one = job_of(Phase::kActive, {"worker-0"});
  const JobStatus forming = job_of(Phase::kForming, {"worker-0", "worker-1"});
  const auto ended = [](const char* how) {
    return std::vector<WorkerStatus>{{"worker-0", "running"}, {"worker-1", how}};
  };

  struct Row {
    RunStatus run;
    JobStatus job;
    std::string_view change;
  };
  const Row rows[] = {
      {run_of("2", both), of_both, ""},
      {run_of("1", one), of_one, ""},
      {run_of("2", ended("finished")), of_one, ""},
      {run_of("2", ended("lost")), of_one, ""},
      {run_of("2", both), without_members, ""},
      {run_of("2", one), without_members, "'worker-1' is to start"},
      {run_of("2", ended("paused")), of_one, "'worker-1' is to start"},
      {run_of("2", ended("stopping")), of_both, "'worker-1' is to start"},
      {run_of("1", both), of_both, "'worker-1' is to end"},
      {run_of("1", ended("stopping")), of_one, "'worker-1' is to end"},
      {run_of("2", both), forming, "generation 7 is forming"},
      {run_of("2", both), of_one, "'worker-1' is to join"},
      {run_of("1", one), of_both, "'worker-1' is to leave"},
      // Worker 1 takes over from worker 0, which runs until then.
      {run_of("1: 1<0", one), of_one, "'worker-0' is to end"},
  };
  for (const Row& row : rows) EXPECT_EQ(change_under_way(row.run, row.job), row.change);
}

TEST(DuringChange, IsMergedOrRefused) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  const Keys keys("job");
  ASSERT_OK(store->put(keys.node(0), encode(node_of_three())));
  ASSERT_OK(store->put(keys.wanted(), "3: 4 5 6"));
  const auto refused = "another change is under way, 'worker-5' is to start; try again";
  EXPECT_FAILS(scale_job(*store, "job", 2, DuringChange::kRefuse), StatusCode::kUnavailable,
               refused);
  EXPECT_FAILS(migrate_worker(*store, "job", 4, {}, DuringChange::kRefuse),
               StatusCode::kUnavailable, refused);
  EXPECT_EQ(store->get(keys.wanted())->value, "3: 4 5 6");
  ASSERT_OK(scale_job(*store, "job", 2));
  EXPECT_EQ(store->get(keys.wanted())->value, "2: 4 5");
  ASSERT_OK(store->put(keys.wanted(), "2: 4 6"));
  EXPECT_EQ(migrate_worker(*store, "job", 4, {}, DuringChange::kRefuse).value(), 5);
}

}  // namespace
}  // namespace ffdl::launch
