#include "ps/segment/numa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <numeric>
#include <thread>

#include "shm/segment.h"
#include "support/status_matchers.h"

namespace ffdl::ps {

bool operator==(const NumaNode& a, const NumaNode& b) {
  return a.number == b.number && a.cores == b.cores;
}
void PrintTo(const NumaNode& node, std::ostream* out) {
  *out << "node " << node.number << " with " << node.cores << " cores";
}

namespace {

using ::testing::ElementsAre;

TEST(Numa, ListsOfTheSystem) {
  EXPECT_FALSE(names_several_nodes("0"));
  EXPECT_FALSE(names_several_nodes("3"));
  EXPECT_FALSE(names_several_nodes(""));
  EXPECT_TRUE(names_several_nodes("0-1"));
  EXPECT_TRUE(names_several_nodes("0,4"));
}

TEST(Numa, NodesOfSyntheticMachines) {
  const auto nodes_of = [](const std::string& description, const std::string& usable = "") {
    auto topology = NumaTopology::synthetic(description, usable);
    EXPECT_OK(topology);
    return topology->nodes();
  };
  const auto node = [](int number, int cores) { return NumaNode{number, cores}; };
  EXPECT_THAT(nodes_of("node:1 core:4 pu:1"), ElementsAre(node(0, 4)));
  EXPECT_THAT(nodes_of("node:2 core:4 pu:2"), ElementsAre(node(0, 4), node(1, 4)));
  EXPECT_THAT(nodes_of("pack:2 node:2 core:8 pu:1"),
              ElementsAre(node(0, 8), node(1, 8), node(2, 8), node(3, 8)));
  // The description has processing units, but no cores.
  EXPECT_THAT(nodes_of("node:2 pu:3"), ElementsAre(node(0, 3), node(1, 3)));
  // This process may use 2 of 4 cores, one of them with one of its two units; then none.
  EXPECT_THAT(nodes_of("node:2 core:4 pu:2", "0-2,8-15"), ElementsAre(node(0, 2), node(1, 4)));
  EXPECT_THAT(nodes_of("node:2 core:4 pu:2", "8-15"), ElementsAre(node(0, 0), node(1, 4)));
  EXPECT_FAILS(NumaTopology::synthetic("node:two"), StatusCode::kInvalidArgument, "node:two");
}

// Adds memory beside the nodes of the processors, as a whole package or the machine may have.
TEST(Numa, MemoryWithoutProcessorsOfItsOwnHasNoCores) {
  const auto placed_on = [](const std::string& description, int shards) {
    auto topology = NumaTopology::synthetic(description);
    EXPECT_OK(topology);
    int cores = 0;
    for (const NumaNode& node : topology->nodes()) cores += node.cores;
    EXPECT_EQ(cores, 8) << description;
    const std::vector<int> nodes = place_shards(topology->nodes(), shards);
    for (const int number : nodes) {
      const auto& all = topology->nodes();
      EXPECT_GT(std::find_if(all.begin(), all.end(),
                             [&](const NumaNode& node) { return node.number == number; })
                    ->cores,
                0);
    }
    return nodes.size();
  };
  // Attaches memory to the machine, beside the nodes of two packages; then a second memory to each
  // package.
  EXPECT_EQ(placed_on("[numa] pack:2 [numa] core:4 pu:1", 4), 4U);
  EXPECT_EQ(placed_on("pack:2 [numa] [numa] core:4 pu:1", 4), 4U);
  EXPECT_EQ(placed_on("pack:1 [numa] [numa] core:8 pu:1", 4), 0U);
}

TEST(Numa, ThisMachineHasTheCoresThatThisThreadMayUse) {
  ASSERT_OK_AND_ASSIGN(const NumaTopology topology, NumaTopology::load());
  const auto cores = [](const NumaTopology& from) {
    return std::accumulate(from.nodes().begin(), from.nodes().end(), 0,
                           [](int sum, const NumaNode& node) { return sum + node.cores; });
  };
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  EXPECT_GE(cores(topology), 1);
  EXPECT_LE(cores(topology), CPU_COUNT(&mine));
  std::thread confined([&] {
    int first = 0;
    while (!CPU_ISSET(first, &mine)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    ASSERT_OK_AND_ASSIGN(const NumaTopology small, NumaTopology::load());
    EXPECT_EQ(cores(small), 1);
  });
  confined.join();
}

TEST(Numa, ThreadsKeepToTheCoresOfTheirNode) {
  ASSERT_OK_AND_ASSIGN(const NumaTopology topology, NumaTopology::load());
  std::thread bound([&] {
    cpu_set_t before;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    for (const NumaNode& node : topology.nodes()) {
      if (node.cores == 0) continue;
      ASSERT_OK(topology.bind_this_thread(node.number));
      cpu_set_t after;
      ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
      EXPECT_GE(CPU_COUNT(&after), node.cores);
      cpu_set_t both;
      CPU_AND(&both, &before, &after);
      EXPECT_TRUE(CPU_EQUAL(&both, &after));
    }
    EXPECT_FAILS(topology.bind_this_thread(1000), StatusCode::kUnavailable, "node");
  });
  bound.join();
}

// The kernel keeps a policy for shared memory with the file, and applies it when the pages are
// allocated.
TEST(Numa, APolicyIsOfTheFileAndOutlivesTheMappingThatSetIt) {
  ASSERT_OK_AND_ASSIGN(const NumaTopology topology, NumaTopology::load());
  const int node = topology.nodes().back().number;
  constexpr uint64_t kBytes = 16 * 4096;
  constexpr uint64_t kBound = 8 * 4096;
  Status bound;
  const auto place = [&](std::byte* memory) {
    bound = topology.bind_memory({node, {memory + kBound, kBytes - kBound}});
  };
  ASSERT_OK_AND_ASSIGN(const shm::Segment segment,
                       shm::Segment::create({.bytes = kBytes, .place = place}));
  if (!bound.ok()) {
    EXPECT_EQ(bound.code(), StatusCode::kUnavailable);
    GTEST_SKIP() << "this system does not let a process bind memory: " << bound.message();
  }
  EXPECT_FALSE(has_memory_policy(segment.data()));
  EXPECT_TRUE(has_memory_policy(segment.data() + kBound));
  EXPECT_THAT(nodes_of_pages(std::vector<void*>{segment.data() + kBound, segment.data() + 60000}),
              ElementsAre(node, node));
}

TEST(Numa, ANodeThatIsNotThereIsRefused) {
  ASSERT_OK_AND_ASSIGN(const NumaTopology topology, NumaTopology::load());
  ASSERT_OK_AND_ASSIGN(const shm::Segment segment, shm::Segment::create({.bytes = 4096}));
  EXPECT_FAILS(topology.bind_memory({1000, {segment.data(), 4096}}), StatusCode::kUnavailable,
               "bind memory");
}

TEST(Numa, PagesThatAreNotThereHaveNoNode) {
  EXPECT_THAT(nodes_of_pages(std::vector<void*>{nullptr}), ElementsAre(-1));
  EXPECT_FALSE(has_memory_policy(nullptr));
}

}  // namespace
}  // namespace ffdl::ps
