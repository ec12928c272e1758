#include "elastic/session/next_world_connector.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

#include "support/ranks.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/times.h"

namespace ffdl::elastic {
namespace {

using namespace std::chrono_literals;
using testing::soon;

// A member alone in its world. The test writes the records of the others to the store.
class NextWorldConnectorTest : public ::testing::Test {
 protected:
  NextWorldConnectorTest() : store_(open_store("mem://", system_runtime()).value()) {}

  std::unique_ptr<Membership> join(const std::string& id) {
    MembershipOptions options;
    options.heartbeat = 50ms;
    options.lease = 15s;
    options.gather = 0ms;
    auto joined = Membership::join(*store_, system_runtime(), {id, 0, ""}, options);
    EXPECT_OK(joined);
    return std::move(joined).value();
  }
  // Connects at once, whichever members are present.
  static Result<std::unique_ptr<Communicator>> connect(const World& world, Time,
                                                       const ConnectWatch&) {
    auto all = make_local_communicators(world.generation, world.members);
    if (!all.ok()) return all.status();
    return std::move((*all)[static_cast<size_t>(world.rank)]);
  }
  std::unique_ptr<NextWorldConnector> follow(Membership& membership,
                                             CommunicatorFactory factory = connect) {
    return std::make_unique<NextWorldConnector>(
        membership, system_runtime(), NextWorldConnector::Options{std::move(factory), 30s},
        [this](uint64_t, const Status&) { losses_.fetch_add(1); });
  }

  const std::unique_ptr<Store> store_;
  std::atomic<int> losses_ = 0;
};

TEST_F(NextWorldConnectorTest, EachNewWorldIsConnected) {
  const auto a = join("a");
  const auto successor = follow(*a);
  ASSERT_OK_AND_ASSIGN(const Connected first, successor->wait_after(0, soon()));
  EXPECT_EQ(first.world.size(), 1);
  EXPECT_EQ(first.communicator->world().generation, first.world.generation);
  successor->set_present(first.world);
  EXPECT_EQ(successor->ready(), 0U);
  ASSERT_OK(a->activate(first.world.generation, soon()));

  const auto b = join("b");
  ASSERT_OK_AND_ASSIGN(const World second, a->wait_world_after(first.world.generation, soon()));
  ASSERT_TRUE(comes_true([&] { return successor->ready() == second.generation; }));
  EXPECT_FALSE(successor->take(second.generation + 1).has_value());
  const auto taken = successor->take(second.generation);
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->world.size(), 2);
  EXPECT_EQ(successor->ready(), 0U);
  EXPECT_EQ(losses_, 0);
}

// A communicator calls the check as long as it lives, even after newer worlds have formed.
TEST_F(NextWorldConnectorTest, WhatAFactoryKeepsOfItSaysNothingOnceItHasConnected) {
  const auto a = join("a");
  std::vector<std::function<Status()>> kept;
  auto successor =
      follow(*a, [&kept](const World& world, Time deadline, const ConnectWatch& watch) {
        kept.push_back(watch.interrupt_check);
        return connect(world, deadline, watch);
      });
  ASSERT_OK_AND_ASSIGN(const Connected first, successor->wait_after(0, soon()));
  successor->set_present(first.world);
  ASSERT_OK(a->activate(first.world.generation, soon()));
  const auto b = join("b");
  ASSERT_OK(successor->wait_after(first.world.generation, soon()));
  successor.reset();
  for (const auto& look : kept) EXPECT_OK(look());
}

TEST_F(NextWorldConnectorTest, OneWhoIsLeftOutIsReadyForThatToo) {
  const auto a = join("a");
  const auto b = join("b");
  const auto of_a = follow(*a);
  const auto of_b = follow(*b);
  // Both members end in one world, whichever came first.
  World present;
  while (present.size() != 2) {
    ASSERT_OK_AND_ASSIGN(const Connected next, of_a->wait_after(present.generation, soon()));
    present = next.world;
    of_a->set_present(present);
    ASSERT_OK(a->activate(present.generation, soon()));
  }
  const uint64_t generation = present.generation;
  // A connector judges by its member's own view, so that member must have seen the world.
  ASSERT_OK(of_b->wait_after(generation - 1, soon()));
  of_b->set_present(present);
  b->ask_to_leave();
  ASSERT_TRUE(comes_true([&] { return of_b->ready() > generation; }));
  EXPECT_FALSE(of_b->take(of_b->ready()).has_value());
  EXPECT_TRUE(comes_true([&] { return of_a->ready() == of_b->ready(); }));
  EXPECT_EQ(losses_, 0);
}

TEST_F(NextWorldConnectorTest, AMemberWhoseLeaseEndedIsALossOnceAWorldWithoutItForms) {
  const auto a = join("a");
  auto b = join("b");
  const auto successor = follow(*a);
  World present;
  while (present.size() != 2) {
    ASSERT_OK_AND_ASSIGN(const Connected next, successor->wait_after(present.generation, soon()));
    present = next.world;
    ASSERT_OK(a->activate(present.generation, soon()));
  }
  successor->set_present(present);
  b.reset();
  ASSERT_OK(store_->end_lease(store_->get("ffdl/job/who/members/b")->lease));
  ASSERT_OK(successor->wait_after(present.generation, soon()));
  EXPECT_TRUE(comes_true([&] { return losses_ > 0; }));
  EXPECT_EQ(losses_, 1);
}

TEST_F(NextWorldConnectorTest, AWorldThatCannotBeConnectedIsReported) {
  const auto a = join("a");
  std::atomic<int> attempts = 0;
  const auto successor =
      follow(*a,
             [&](const World& world, Time deadline,
                 const ConnectWatch& watch) -> Result<std::unique_ptr<Communicator>> {
               if (++attempts == 1) return Status(StatusCode::kTimeout, "the test says so");
               return connect(world, deadline, watch);
             });
  ASSERT_OK_AND_ASSIGN(const Connected next, successor->wait_after(0, soon()));
  EXPECT_GT(next.world.generation, 1U);
}

// The newcomer would fail in every world, and the other members with it.
TEST_F(NextWorldConnectorTest, ANewcomerWithoutWhatConnectingNeedsEnds) {
  const auto a = join("a");
  const auto successor = follow(*a, [](const World&, Time, const ConnectWatch&) {
    return Result<std::unique_ptr<Communicator>>(
        Status(StatusCode::kExhausted, "the test says so"));
  });
  EXPECT_FAILS(successor->wait_after(0, soon()), StatusCode::kExhausted, "the test says so");
}

// An address that is not of this host makes the newcomer unreachable for every member.
TEST_F(NextWorldConnectorTest, ANewcomerThatCanConnectToNobodyOfItselfEnds) {
  const auto a = join("a");
  const auto b = join("b");
  const auto connect_from_elsewhere = [](const World& world, Time, const ConnectWatch& watch) {
    for (int rank = 0; rank < world.size(); ++rank) {
      if (rank != world.rank) watch.unreached(rank);
    }
    return Result<std::unique_ptr<Communicator>>(
        Status(StatusCode::kInvalidArgument, "the test says so"));
  };
  const auto successor = follow(*a, connect_from_elsewhere);
  EXPECT_FAILS(successor->wait_after(0, soon()), StatusCode::kInvalidArgument, "the test says so");
}

// The members differ about the back end. Other members may resolve that.
TEST_F(NextWorldConnectorTest, ANewcomerThatDoesNotFitToOthersWaits) {
  const auto a = join("a");
  const auto b = join("b");
  const auto successor =
      follow(*a, [](const World& world, Time deadline, const ConnectWatch& watch) {
        if (world.size() == 1) return connect(world, deadline, watch);
        return Result<std::unique_ptr<Communicator>>(
            Status(StatusCode::kInvalidArgument, "the test says so"));
      });
  const Time patience = soon();
  uint64_t after = 0;  // a world of `a` alone may come first
  Status waited;
  do {
    const auto next = successor->wait_after(after, deadline_in(100ms));
    if (next.ok()) {
      after = next->world.generation;
      successor->set_present(next->world);
      ASSERT_OK(a->activate(after, soon()));  // a newer world forms once this one is active
    }
    waited = next.status();
  } while (waited.message().find("the test says so") == std::string_view::npos &&
           system_runtime().now() < patience);
  EXPECT_FAILS(waited, StatusCode::kTimeout, "the test says so");
}

TEST_F(NextWorldConnectorTest, WaitingEnds) {
  const auto a = join("a");
  const auto successor = follow(
      *a,
      [](const World&, Time, const ConnectWatch& watch) -> Result<std::unique_ptr<Communicator>> {
        while (watch.interrupt_check().ok()) std::this_thread::yield();
        return Status(StatusCode::kCancelled, "given up");
      });
  EXPECT_FAILS(successor->wait_after(0, deadline_in(50ms)), StatusCode::kTimeout, "none works");
  const Status left = a->leave(soon());
  EXPECT_OK(left);
  EXPECT_FAILS(successor->wait_after(0, soon()), StatusCode::kCancelled, "has left");
}

}  // namespace
}  // namespace ffdl::elastic
