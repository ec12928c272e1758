#include "launch/launch_records.h"

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
    EXPECT_FAILS(parse_node(text), StatusCode::kCorrupt, "read a node's record");
  }
  std::string without_id = encode(node_two());
  without_id.replace(without_id.find("worker-4"), 8, "");
  EXPECT_FAILS(parse_node(without_id), StatusCode::kCorrupt, "read a node's record");
  for (const std::string& huge : {std::string("4294967298"), std::string("18446744073709551615"),
                                  std::string("-1"), std::string("1.5"), std::string(309, '9')}) {
    std::string node = encode(node_two());
    node.replace(node.find("4711"), 4, huge);
    EXPECT_FAILS(parse_node(node), StatusCode::kCorrupt, "read a node's record");
  }
}

// Each field as no supervisor writes it. A job is scaled within these numbers.
TEST(LaunchRecords, WhatNoSupervisorWritesIsNoNode) {
  for (const auto& [part, other] : std::initializer_list<std::pair<std::string, std::string>>{
           {"\"node\":2", "\"node\":-1"},
           {"\"min_workers\":1", "\"min_workers\":9"},
           {"\"max_workers\":8", "\"max_workers\":257"},
           {"\"max_workers\":8", "\"max_workers\":0"},
           {"\"max_workers\":8", "\"max_workers\":2000000000"},
           {"worker-5", "worker-4"},
           {"\"running\"", "7"},
           {"4712", "-4712"},
           {"\"restarts\":1", "\"restarts\":\"1\""}}) {
    std::string node = encode(node_two());
    node.replace(node.find(part), part.size(), other);
    EXPECT_FAILS(parse_node(node), StatusCode::kCorrupt, "read a node's record");
  }
}

TEST(ReadRun, ARecordUnderTheKeyOfAnotherNodeIsCorrupt) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  ASSERT_OK(store->put(Keys("job").node(1), encode(node_two())));
  EXPECT_FAILS(read_run(*store, "job"), StatusCode::kCorrupt, "it holds the record of node 2");
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

}  // namespace
}  // namespace ffdl::launch
