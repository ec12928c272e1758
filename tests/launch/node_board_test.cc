#include "launch/node_board.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/limits.h"
#include "ffdl/membership.h"
#include "support/put_under_lease.h"
#include "support/ranks.h"
#include "support/status_matchers.h"

namespace ffdl::launch {
namespace {

using namespace std::chrono_literals;
using testing::on_threads;

NodeStatus node(int number, const char* phase = "running") {
  const auto id = [&](int index) { return "worker-" + std::to_string(2 * number + index); };
  return {number, 4711, 1, 4, {{id(0), phase, 1, 0}, {id(1), "idle", 0, 0}}};
}

class NodeBoardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = open_store("mem://", system_runtime());
    ASSERT_OK(opened);
    store_ = std::move(opened).value();
  }
  std::unique_ptr<NodeBoard> board() {
    return std::make_unique<NodeBoard>(*store_, system_runtime(), *bell_, "job");
  }
  // Checks the condition again at each ring of the bell.
  bool comes_true(const std::function<bool()>& condition) {
    while (true) {
      bell_->reset();
      if (condition()) return true;
      if (!bell_->wait_until(deadline_in(60s))) return false;
    }
  }

  const std::unique_ptr<Event> bell_ = system_runtime().make_event();
  std::unique_ptr<Store> store_;
};

TEST_F(NodeBoardTest, TheFirstNodeSaysHowManyAreWanted) {
  ASSERT_OK(store_->put(Keys("job").wanted(), "2"));
  ASSERT_OK(store_->put(Keys("job").outcome(), "of the last run"));
  const auto first = board(), second = board();
  ASSERT_OK(first->open(node(0), 4));
  EXPECT_EQ(first->view().wanted.size(), 4U);
  EXPECT_EQ(first->view().outcome, std::nullopt);
  ASSERT_OK(scale_job(*store_, "job", 3));
  ASSERT_OK(second->open(node(1), 4));
  EXPECT_EQ(second->view().wanted.size(), 3U);
  EXPECT_TRUE(comes_true([&] { return first->view().wanted.size() == 3; }));
}

TEST_F(NodeBoardTest, NodesSeeEachOther) {
  const auto first = board(), second = board();
  ASSERT_OK(first->open(node(0), 4));
  ASSERT_OK(second->open(node(1), 4));
  EXPECT_EQ(first->view().lost_elsewhere, 0);
  second->publish(node(1, "lost"));
  EXPECT_TRUE(comes_true([&] { return first->view().lost_elsewhere == 1; }));
  ASSERT_OK(scale_job(*store_, "job", 2));  // which excludes that worker
  EXPECT_TRUE(comes_true([&] { return first->view().lost_elsewhere == 0; }));
  ASSERT_OK(second->close("it broke"));
  EXPECT_TRUE(comes_true([&] { return first->view().outcome == "it broke"; }));
  EXPECT_EQ(read_run(*store_, "job")->nodes.size(), 1U);
}

TEST_F(NodeBoardTest, ANodeHasOneSupervisor) {
  const auto first = board();
  ASSERT_OK(first->open(node(0), 4));
  EXPECT_FAILS(board()->open(node(0), 4), StatusCode::kConflict,
               "another supervisor runs it (process 4711); end that one");
}

// Also where the store ends its lease 2 s late.
TEST_F(NodeBoardTest, ADeadPredecessorIsWaitedFor) {
  ASSERT_OK_AND_ASSIGN(const LeaseId lease, store_->grant_lease(base::kNodeLease + 2s));
  ASSERT_OK(store_->put(Keys("job").node(0), encode(node(0)), lease));
  EXPECT_OK(board()->open(node(0), 4));
}

// As where its process could start no thread, or failed after it had the node.
TEST_F(NodeBoardTest, OneThatWasNotClosedLeavesItsNodeAtOnce) {
  ASSERT_OK(board()->open(node(0), 4));
  EXPECT_FAILS(store_->get(Keys("job").node(0)), StatusCode::kNotFound, "");
  const Time begin = deadline_in({});
  EXPECT_OK(board()->open(node(0), 4));
  EXPECT_LT(deadline_in({}) - begin, base::kNodeLease);  // the end of a lease that was left
}

// Each of them sees the same free numbers, and only the store decides.
TEST_F(NodeBoardTest, ManyThatComeAtOnceHaveANumberEach) {
  constexpr int kNodes = 24;
  std::vector<std::unique_ptr<NodeBoard>> boards;
  for (int i = 0; i < kNodes; ++i) boards.push_back(board());
  std::vector<int> numbers(kNodes, -1);
  on_threads(kNodes, [&](int i) {
    const auto at = static_cast<size_t>(i);
    const auto number = boards[at]->open_free(1, kNodes, [](int free) { return node(free); }, 4);
    ASSERT_OK(number);
    numbers[at] = *number;
  });
  std::sort(numbers.begin(), numbers.end());
  for (int i = 0; i < kNodes; ++i) EXPECT_EQ(numbers[static_cast<size_t>(i)], i + 1);
  ASSERT_OK_AND_ASSIGN(const RunStatus run, read_run(*store_, "job"));
  EXPECT_EQ(run.nodes.size(), static_cast<size_t>(kNodes));
  EXPECT_FAILS(board()->open_free(
                   1, kNodes, [](int free) { return node(free); }, 4),
               StatusCode::kConflict, "each of the nodes 1 to 24 has a live supervisor");
}

TEST_F(NodeBoardTest, TheNumberOfADeadNodeIsTakenWhenItsLeaseEnds) {
  const auto first = board(), next = board();
  ASSERT_OK(first->open(node(0), 4));
  const auto dead = testing::put_under_lease(*store_, Keys("job").node(1), 1s, encode(node(1)));
  ASSERT_OK(dead.revision);
  const auto record_of = [](int free) { return node(free); };
  ASSERT_OK_AND_ASSIGN(const int number, next->open_free(0, 2, record_of, 4));
  EXPECT_EQ(number, 1);
  EXPECT_FAILS(store_->keep_alive(dead.lease), StatusCode::kNotFound, "");
  ASSERT_OK(first->close(""));
  EXPECT_EQ(*board()->open_free(0, 2, record_of, 4), 0);
}

TEST_F(NodeBoardTest, ReportsTheLastLifeOfAWorker) {
  const auto keeper = board();
  ASSERT_OK(keeper->open(node(0), 4));
  ASSERT_OK_AND_ASSIGN(auto life, Membership::join(*store_, system_runtime(), {"worker-a"},
                                                   {.lease = 10s, .fence_after = 30s}));
  keeper->report_end("worker-a");
  keeper->report_end("worker-b");  // a worker that never joined
  std::vector<std::string> told;
  EXPECT_TRUE(comes_true([&] {
    for (auto& reported : keeper->take_reported()) told.push_back(std::move(reported.id));
    return told.size() == 2;
  }));
  EXPECT_EQ(told, (std::vector<std::string>{"worker-a", "worker-b"}));
  EXPECT_FAILS(life->wait_world_after(1000, deadline_in(60s)), StatusCode::kCancelled,
               "reported dead");
}

TEST_F(NodeBoardTest, ItsLeaseEndsWithItAndIsRenewed) {
  auto keeper = board();
  ASSERT_OK(keeper->open(node(0), 4));
  const LeaseId lease = store_->get(Keys("job").node(0))->lease;
  ASSERT_OK(store_->end_lease(lease));
  EXPECT_TRUE(comes_true([&] {
    keeper->publish(node(0, "paused"));
    const auto entry = store_->get(Keys("job").node(0));
    return entry.ok() && entry->lease != lease && entry->value == encode(node(0, "paused"));
  }));
  ASSERT_OK(keeper->close(""));
  EXPECT_FAILS(store_->get(Keys("job").node(0)), StatusCode::kNotFound, "");
  EXPECT_FAILS(store_->get(Keys("job").outcome()), StatusCode::kNotFound, "");
}

// A supervisor that was stopped for longer than its lease. Its record is outdated, and the workers
// of that name belong to another supervisor. It may have a record to write, or only an end to
// report.
class LapsedNodeBoard : public NodeBoardTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(, LapsedNodeBoard, ::testing::Bool());

TEST_P(LapsedNodeBoard, DoesNotWriteOverItsSuccessor) {
  auto late = board();
  ASSERT_OK(late->open(node(0), 4));
  EXPECT_OK(late->place());
  const std::string key = Keys("job").node(0);
  // The lease ends. Another supervisor takes the node before the first one reads the store again:
  // its record comes first, as a heartbeat may find the node free otherwise.
  const LeaseId lapsed = store_->get(key)->lease;
  ASSERT_OK_AND_ASSIGN(const LeaseId lease, store_->grant_lease(1h));
  NodeStatus successor = node(0, "running");
  successor.process = 815;
  ASSERT_OK(store_->put(key, encode(successor), lease));
  ASSERT_OK(store_->end_lease(lapsed));
  ASSERT_OK_AND_ASSIGN(auto life, Membership::join(*store_, system_runtime(), {"worker-0"},
                                                   {.lease = 10s, .fence_after = 30s}));
  if (GetParam()) late->publish(node(0, "paused"));
  late->report_end("worker-0");  // its own worker, whose id is the same
  EXPECT_TRUE(comes_true([&] { return !late->place().ok(); }));
  EXPECT_FAILS(late->place(), StatusCode::kConflict, "another supervisor (process 815) has");
  EXPECT_OK(late->close("it was given up"));
  late.reset();
  EXPECT_EQ(store_->get(key)->value, encode(successor));
  EXPECT_EQ(store_->get(key)->lease, lease);
  EXPECT_FAILS(store_->get(Keys("job").outcome()), StatusCode::kNotFound, "");
  EXPECT_OK(life->life_status());
  ASSERT_OK_AND_ASSIGN(const auto entries, store_->list("ffdl/job/"));
  EXPECT_TRUE(std::none_of(entries.begin(), entries.end(), [](const Entry& entry) {
    return entry.key.find("/dead/") != entry.key.npos;
  }));
}

}  // namespace
}  // namespace ffdl::launch
