#include "launch/records.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace ffdl::launch {
namespace {

NodeStatus node_two() {
  return {2, 4711, 1, 8, {{"worker-4", "running", 4712, 1}, {"worker-5", "idle", 0, 0}}};
}

TEST(LaunchRecords, ANodeReadsWhatItWrote) {
  ASSERT_OK_AND_ASSIGN(const NodeStatus read, parse_node(encode(node_two())));
  EXPECT_EQ(encode(read), encode(node_two()));
  EXPECT_EQ(read.workers[0].process, 4712);
  EXPECT_EQ(read.max_workers, 8);
}

TEST(LaunchRecords, ForeignBytesAreNoNode) {
  for (const char* text : {"", "{", "[]", "{}", "{\"workers\":[]}", "{\"workers\":[1]}"}) {
    EXPECT_FAILS(parse_node(text), StatusCode::kCorrupt, "it is none");
  }
  std::string without_id = encode(node_two());
  without_id.replace(without_id.find("worker-4"), 8, "");
  EXPECT_FAILS(parse_node(without_id), StatusCode::kCorrupt, "it is none");
}

TEST(ReadRun, ShowsNodesAndWhatIsWanted) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  const Keys keys("job");
  ASSERT_OK_AND_ASSIGN(const RunStatus none, read_run(*store, "job"));
  EXPECT_TRUE(none.nodes.empty());
  ASSERT_OK(store->put(keys.node(2), encode(node_two())));
  ASSERT_OK(store->put(keys.wanted(), "6"));
  ASSERT_OK_AND_ASSIGN(const RunStatus run, read_run(*store, "job"));
  EXPECT_EQ(run.wanted_workers.size(), 6U);
  ASSERT_EQ(run.nodes.size(), 1U);
  EXPECT_EQ(run.nodes[0].process, 4711);
}

TEST(ScaleJob, WithinWhatItWasStartedFor) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  EXPECT_FAILS(scale_job(*store, "job", 1), StatusCode::kNotFound, "nobody runs it");
  ASSERT_OK(store->put(Keys("job").node(2), encode(node_two())));
  EXPECT_FAILS(scale_job(*store, "job", 0), StatusCode::kInvalidArgument, "1 to 8");
  EXPECT_FAILS(scale_job(*store, "job", 9), StatusCode::kInvalidArgument, "9 workers");
  ASSERT_OK(scale_job(*store, "job", 8));
  ASSERT_OK(scale_job(*store, "job", 1));
  EXPECT_EQ(store->get(Keys("job").wanted())->value, "1");
}

// Workers 4 and 6 work, 5 does not.
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
  EXPECT_FAILS(migrate_worker(*store, "job", 1), StatusCode::kNotFound, "nobody runs it");
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

}  // namespace
}  // namespace ffdl::launch
