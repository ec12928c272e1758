#include "elastic/successor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/times.h"

namespace ffdl::elastic {
namespace {

using namespace std::chrono_literals;
using testing::soon;

// Alone in its own world; what others would do is done to the store by hand.
class SuccessorTest : public ::testing::Test {
 protected:
  SuccessorTest() : store_(open_store("mem://", system_runtime()).value()) {}

  std::unique_ptr<Membership> join(const std::string& id) {
    MembershipOptions options;
    options.heartbeat = 50ms;
    options.lease = 3s;
    options.gather = 0ms;
    auto joined = Membership::join(*store_, system_runtime(), {id, 0, ""}, options);
    EXPECT_OK(joined);
    return std::move(joined).value();
  }
  // Connects at once, whoever is there.
  static Result<std::unique_ptr<Communicator>> connect(const World& world, Time,
                                                       const std::function<Status()>&) {
    auto all = make_local_communicators(world.generation, world.members);
    if (!all.ok()) return all.status();
    return std::move((*all)[static_cast<size_t>(world.rank)]);
  }
  std::unique_ptr<Successor> follow(Membership& membership, CommunicatorFactory factory = connect) {
    return std::make_unique<Successor>(membership, system_runtime(),
                                       Successor::Options{std::move(factory), 30s},
                                       [this] { losses_.fetch_add(1); });
  }

  const std::unique_ptr<Store> store_;
  std::atomic<int> losses_ = 0;
};

TEST_F(SuccessorTest, EachNewWorldIsConnected) {
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
  while (successor->ready() != second.generation) std::this_thread::yield();
  EXPECT_FALSE(successor->take(second.generation + 1).has_value());
  const auto taken = successor->take(second.generation);
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->world.size(), 2);
  EXPECT_EQ(successor->ready(), 0U);
  EXPECT_EQ(losses_, 0);
}

// A communicator asks for as long as it lives, also when newer worlds have formed.
TEST_F(SuccessorTest, WhatAFactoryKeepsOfItSaysNothingOnceItHasConnected) {
  const auto a = join("a");
  std::vector<std::function<Status()>> kept;
  auto successor =
      follow(*a, [&kept](const World& world, Time deadline, const std::function<Status()>& look) {
        kept.push_back(look);
        return connect(world, deadline, look);
      });
  ASSERT_OK_AND_ASSIGN(const Connected first, successor->wait_after(0, soon()));
  successor->set_present(first.world);
  ASSERT_OK(a->activate(first.world.generation, soon()));
  const auto b = join("b");
  ASSERT_OK(successor->wait_after(first.world.generation, soon()));
  successor.reset();
  for (const auto& look : kept) EXPECT_OK(look());
}

TEST_F(SuccessorTest, OneWhoIsLeftOutIsReadyForThatToo) {
  const auto a = join("a");
  const auto b = join("b");
  const auto of_a = follow(*a);
  const auto of_b = follow(*b);
  // Together at last, whoever was first.
  uint64_t generation = 0;
  for (int size = 0; size != 2;) {
    ASSERT_OK_AND_ASSIGN(const Connected next, of_a->wait_after(generation, soon()));
    generation = next.world.generation;
    size = next.world.size();
    of_a->set_present(next.world);
    of_b->set_present(next.world);
    if (next.world.rank >= 0) ASSERT_OK(a->activate(generation, soon()));
  }
  b->ask_to_leave();
  while (of_b->ready() <= generation) std::this_thread::yield();
  EXPECT_FALSE(of_b->take(of_b->ready()).has_value());
  while (of_a->ready() != of_b->ready()) std::this_thread::yield();
  EXPECT_EQ(losses_, 0);
}

TEST_F(SuccessorTest, AMemberWhoseLeaseEndedIsALossOnceAWorldWithoutItForms) {
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
  b.reset();  // its lease ends in time
  ASSERT_OK(successor->wait_after(present.generation, soon()));
  while (losses_ == 0) std::this_thread::yield();
  EXPECT_EQ(losses_, 1);
}

TEST_F(SuccessorTest, AWorldThatCannotBeConnectedIsReported) {
  const auto a = join("a");
  std::atomic<int> attempts = 0;
  const auto successor =
      follow(*a,
             [&](const World& world, Time deadline,
                 const std::function<Status()>& look) -> Result<std::unique_ptr<Communicator>> {
               if (++attempts == 1) return Status(StatusCode::kTimeout, "the test says so");
               return connect(world, deadline, look);
             });
  ASSERT_OK_AND_ASSIGN(const Connected next, successor->wait_after(0, soon()));
  EXPECT_GT(next.world.generation, 1U);
}

TEST_F(SuccessorTest, WaitingEnds) {
  const auto a = join("a");
  const auto successor =
      follow(*a,
             [](const World&, Time,
                const std::function<Status()>& look) -> Result<std::unique_ptr<Communicator>> {
               while (look().ok()) std::this_thread::yield();
               return Status(StatusCode::kCancelled, "given up");
             });
  EXPECT_FAILS(successor->wait_after(0, deadline_in(50ms)), StatusCode::kTimeout, "none works");
  const Status left = a->leave(soon());
  EXPECT_OK(left);
  EXPECT_FAILS(successor->wait_after(0, soon()), StatusCode::kCancelled, "has left");
}

}  // namespace
}  // namespace ffdl::elastic
