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

TEST(LaunchRecords, ACount) {
  EXPECT_EQ(parse_count("12"), 12);
  for (const char* text : {"", "0", "-1", "1x", "99999999999"}) EXPECT_EQ(parse_count(text), 0);
}

TEST(ReadRun, ShowsNodesAndWhatIsWanted) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  const Keys keys("job");
  ASSERT_OK_AND_ASSIGN(const RunStatus none, read_run(*store, "job"));
  EXPECT_TRUE(none.nodes.empty());
  ASSERT_OK(store->put(keys.node(2), encode(node_two())));
  ASSERT_OK(store->put(keys.wanted(), "6"));
  ASSERT_OK_AND_ASSIGN(const RunStatus run, read_run(*store, "job"));
  EXPECT_EQ(run.wanted, 6);
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

}  // namespace
}  // namespace ffdl::launch
