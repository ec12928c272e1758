#include "ps/segment/node_binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cstring>
#include <thread>

#include "ffdl/ps/parameter_server.h"
#include "ps/server/server_impl.h"
#include "ps/test_region.h"
#include "support/segment_name.h"
#include "support/status_matchers.h"

namespace ffdl::ps {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(NodeBinding, OnSyntheticMachines) {
  const auto binding = [](const std::string& machine, int shards) {
    auto topology = NumaTopology::synthetic(machine);
    EXPECT_OK(topology);
    return NodeBinding::on(std::move(topology).value(), shards);
  };
  EXPECT_THAT(binding("node:2 core:4 pu:2", 3).shard_nodes(), ElementsAre(0, 0, 1));
  EXPECT_THAT(binding("pack:2 node:2 core:8 pu:1", 4).shard_nodes(), ElementsAre(0, 1, 2, 3));
  const NodeBinding one = binding("node:1 core:4 pu:1", 2);
  EXPECT_FALSE(one.any());
  EXPECT_THAT(one.note(), HasSubstr("one NUMA node"));
  EXPECT_FALSE(one.bind_this_thread(0));
}

TEST(NodeBinding, OffAndASingleNodeBindNothing) {
  const NodeBinding off = NodeBinding::decide(false, 2);
  EXPECT_FALSE(off.any());
  EXPECT_THAT(off.note(), HasSubstr("off"));
  const NodeBinding decided = NodeBinding::decide(true, 2);
  EXPECT_FALSE(decided.note().empty());
  if (!has_several_nodes()) {
    EXPECT_FALSE(decided.any());
  }
}

TEST(NodeBinding, WhatIsRefusedIsToldAndNothingElseHappens) {
  ASSERT_OK_AND_ASSIGN(NumaTopology topology, NumaTopology::load());
  NodeBinding binding(std::move(topology), {1000, 1000}, "bound");
  const TestRegion region(TestRegion::small_config(2, 0));
  binding.bind_memory(*region);
  EXPECT_FALSE(binding.any());
  EXPECT_THAT(binding.note(), HasSubstr("bind memory"));
  EXPECT_FALSE(binding.bind_this_thread(0));
}

// Binds the pages of a segment of this configuration to nodes of this machine.
TEST(NodeBinding, BindsASegmentAndItsThreads) {
  const Config config = TestRegion::small_config(2, 1);
  ASSERT_OK_AND_ASSIGN(NumaTopology topology, NumaTopology::load());
  const int node = topology.nodes().front().number;
  NodeBinding binding(std::move(topology), {node, node}, "bound");
  const auto place = [&](std::byte* memory) { binding.bind_memory(Region(memory, config)); };
  ASSERT_OK_AND_ASSIGN(const shm::Segment segment,
                       shm::Segment::create({.bytes = Offsets(config).total, .place = place}));
  if (!binding.any()) GTEST_SKIP() << "memory cannot be bound here: " << binding.note();
  const Region region(segment.data(), config);
  const MemoryPlacement seen = observe_memory(region, {.bytes = 5, .note = "few"});
  EXPECT_TRUE(seen.bound);
  EXPECT_THAT(seen.shard_nodes, ElementsAre(node, node));
  EXPECT_EQ(seen.huge_page_bytes, 5U);
  EXPECT_EQ(seen.huge_page_note, "few");
  EXPECT_TRUE(has_memory_policy(region.gradient(2, 1).floats()));
  EXPECT_TRUE(has_memory_policy(region.shadow(1, 1, 1)));
  EXPECT_FALSE(has_memory_policy(&region.server()));
  std::thread thread([&] { EXPECT_TRUE(binding.bind_this_thread(1)); });
  thread.join();
}

// Binds threads as a server on several nodes does, on any node that exists.
TEST(NodeBinding, AServersThreadsAreBoundWhileTheyRun) {
  const Config config = TestRegion::small_config(2, 0);
  ASSERT_OK_AND_ASSIGN(NumaTopology topology, NumaTopology::load());
  const int node = topology.nodes().front().number;
  NodeBinding binding(std::move(topology), {node, node}, "bound");
  ASSERT_OK_AND_ASSIGN(shm::Segment segment,
                       shm::Segment::create({.bytes = Offsets(config).total}));
  Config& stored = stored_config(segment.data());
  std::memcpy(&stored, &config, sizeof config);
  stored.checksum = config_checksum(stored);
  ASSERT_OK_AND_ASSIGN(const Region region, read_region(segment));
  ASSERT_OK_AND_ASSIGN(auto owner, shm::RoleLock::acquire(segment.fd(), shm::kOwnerRole));
  ASSERT_OK_AND_ASSIGN(auto rule, make_update_rule({}));
  ParameterServer::Impl server(std::move(segment), std::move(owner), region, std::move(rule),
                               std::move(binding), ServerDevice());
  EXPECT_EQ(server.stats().memory.threads_bound, 0);
  ASSERT_OK(server.start());
  const Time deadline = deadline_in(std::chrono::seconds(60));
  while (server.stats().memory.threads_bound < 2 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(server.stats().memory.threads_bound, 2);
  EXPECT_EQ(server.stats().memory.note, "bound");
  ASSERT_OK(server.stop());
  EXPECT_EQ(server.stats().memory.threads_bound, 0);
}

TEST(NodeBinding, AServerTellsWhereItsMemoryIs) {
  const testing::SegmentName name;
  ASSERT_OK_AND_ASSIGN(
      auto server, ParameterServer::create(
                       {.name = name.text(), .parameters = 5000, .threads = 3, .learners_max = 2}));
  ASSERT_OK(server->start());
  ASSERT_OK_AND_ASSIGN(auto view, ParameterServerView::open(name.text(), Time{}));
  const MemoryPlacement inside = server->stats().memory;
  const MemoryPlacement outside = view->stats().memory;
  EXPECT_THAT(inside.shard_nodes, SizeIs(3));
  EXPECT_EQ(inside.shard_nodes, outside.shard_nodes);
  EXPECT_EQ(inside.bound, outside.bound);
  EXPECT_FALSE(inside.note.empty());
  EXPECT_FALSE(inside.huge_page_note.empty());
  EXPECT_EQ(inside.huge_page_bytes, 0U);  // smaller than a huge page
  if (!has_several_nodes()) {
    EXPECT_FALSE(inside.bound);
    EXPECT_EQ(inside.threads_bound, 0);
    EXPECT_THAT(inside.shard_nodes, Each(::testing::AnyOf(0, -1)));
  }
}

}  // namespace
}  // namespace ffdl::ps
