#include "launch/node_board.h"

#include <gtest/gtest.h>

#include <functional>

#include "ffdl/job_status.h"
#include "ffdl/membership.h"
#include "support/status_matchers.h"

namespace ffdl::launch {
namespace {

using namespace std::chrono_literals;

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
  // Looks again whenever the bell rings.
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
  ASSERT_OK(scale_job(*store_, "job", 2));  // which that worker is beyond
  EXPECT_TRUE(comes_true([&] { return first->view().lost_elsewhere == 0; }));
  ASSERT_OK(second->close("it broke"));
  EXPECT_TRUE(comes_true([&] { return first->view().outcome == "it broke"; }));
  EXPECT_EQ(read_run(*store_, "job")->nodes.size(), 1U);
}

TEST_F(NodeBoardTest, ANodeHasOneSupervisor) {
  const auto first = board();
  ASSERT_OK(first->open(node(0), 4));
  EXPECT_FAILS(board()->open(node(0), 4), StatusCode::kConflict, "another supervisor does");
}

TEST_F(NodeBoardTest, ADeadPredecessorIsWaitedFor) {
  ASSERT_OK_AND_ASSIGN(const LeaseId lease, store_->grant_lease(1s));
  ASSERT_OK(store_->put(Keys("job").node(0), encode(node(0)), lease));
  EXPECT_OK(board()->open(node(0), 4));
}

TEST_F(NodeBoardTest, ReportsTheLastLifeOfAWorker) {
  const auto keeper = board();
  ASSERT_OK(keeper->open(node(0), 4));
  ASSERT_OK_AND_ASSIGN(auto life, Membership::join(*store_, system_runtime(), {"worker-a"},
                                                   {.lease = 10s, .fence_after = 30s}));
  keeper->report_end("worker-a");
  keeper->report_end("worker-b");  // which never joined
  std::vector<std::string> told;
  EXPECT_TRUE(comes_true([&] {
    for (std::string& id : keeper->take_told()) told.push_back(std::move(id));
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

}  // namespace
}  // namespace ffdl::launch
