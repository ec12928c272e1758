#include "comm/gpu/nccl/connector.h"

#include <gtest/gtest.h>

#include "support/fake_nccl.h"
#include "support/programs.h"

// Tests how ranks move from one world to the next. tests/comm/gpu/nccl/communicator_test.cc tests
// the worlds themselves.
namespace ffdl::comm {
namespace {

using namespace std::chrono_literals;
using testing::continue_nccl;
using testing::members_named;
using testing::on_each;
using testing::on_threads;
using testing::Ranks;
using testing::soon;

class NcclConnectorTest : public ::testing::Test {
 protected:
  ~NcclConnectorTest() override {
    EXPECT_EQ(fake.alive, 0) << "communicators of NCCL that nobody ended";
    EXPECT_EQ(fake.misused, 0) << "calls after which NCCL hangs";
  }
  static void expect_sums(const Ranks& ranks) {
    const auto size = static_cast<float>(ranks.size());
    on_each(ranks, [size](Communicator& communicator, int rank) {
      auto value = static_cast<float>(rank);
      ASSERT_OK(communicator.all_reduce({&value, 1}, ReduceOp::kSum, soon()));
      EXPECT_EQ(value, size * (size - 1) / 2);
    });
  }
  // Connects the next world of the first `size` ranks, which try to derive it for at most
  // `derive_max`.
  static Ranks derive(uint64_t generation, int size, const Ranks& before, Duration derive_max) {
    const auto store = open_store("mem://", system_runtime()).value();
    Ranks after(static_cast<size_t>(size));
    on_threads(size, [&](int rank) {
      const auto at = static_cast<size_t>(rank);
      auto made = testing::connect_nccl(
          {generation, rank, members_named(size)}, *store, soon(), testing::fake_nccl(),
          std::make_unique<testing::HostDevice>(), {}, GpuWorlds::kReuse, derive_max);
      ASSERT_OK(made);
      after[at] = std::move(made).value();
      ASSERT_OK(after[at]->continue_from(at < before.size() ? before[at].get() : nullptr, soon()));
    });
    return after;
  }
  testing::FakeNccl& fake = testing::fresh_fake_nccl();
};

TEST_F(NcclConnectorTest, AWorldGrowsByNewcomers) {
  Ranks before = continue_nccl(1, members_named(2));
  expect_sums(before);
  EXPECT_EQ(fake.grown, 0) << "there was nothing to grow out of";
  const Ranks after = continue_nccl(2, members_named(4), before);
  EXPECT_EQ(fake.grown, 4);
  expect_sums(after);
  float value = 1;
  EXPECT_FAILS(before[0]->all_reduce({&value, 1}, ReduceOp::kSum, soon()), StatusCode::kCancelled,
               "a newer world continues");
  before.clear();
  EXPECT_EQ(fake.left, 2) << "all stay, and end the world before in order";
  expect_sums(after);
}

TEST_F(NcclConnectorTest, AWorldShrinksByWhoLeaves) {
  const std::vector<Member> members = members_named(4);
  Ranks before = continue_nccl(1, members);
  const Ranks after = continue_nccl(2, {members[1], members[3]}, before);
  EXPECT_EQ(fake.shrunk, 2);
  EXPECT_EQ(fake.revoked, 0);
  expect_sums(after);
  before.clear();
  expect_sums(after);
  // NCCL's orderly end needs all ranks together, but those two ended by themselves.
  EXPECT_EQ(fake.left, 2) << "those that are gone";
  EXPECT_EQ(fake.aborted, 2);
}

// Holds for any way in which the next world was connected.
TEST_F(NcclConnectorTest, WhoStaysDoesNotWaitForTheEndOfWhoHasLeft) {
  const std::vector<Member> members = members_named(3);
  Ranks before = testing::nccl_ranks(1, members);
  const Ranks after = testing::nccl_ranks(2, members_named(2));
  for (const size_t rank : {0, 1})
    EXPECT_OK(after[rank]->continue_from(before[rank].get(), soon()));
  before.clear();
  EXPECT_EQ(fake.aborted, 2);
  EXPECT_EQ(fake.left, 1);
  expect_sums(after);
}

TEST_F(NcclConnectorTest, SurvivorsOfALossShrinkWhatTheyRevoked) {
  const std::vector<Member> members = members_named(3);
  const Ranks before = continue_nccl(1, members);
  fake.hangs = true;
  std::thread killer([&] {
    while (fake.waiting < 3) std::this_thread::yield();
    before[1]->abort(Status(StatusCode::kCancelled, "it is shot"));
  });
  on_each(before, [](Communicator& communicator, int) {
    float value = 1;
    EXPECT_FALSE(communicator.all_reduce({&value, 1}, ReduceOp::kSum, kNoDeadline).ok());
  });
  killer.join();
  EXPECT_EQ(fake.revoked, 3);
  EXPECT_EQ(fake.aborted, 0);
  fake.hangs = false;
  const Ranks after = continue_nccl(2, {members[0], members[2]}, before);
  EXPECT_EQ(fake.shrunk, 2);
  expect_sums(after);
}

// One rank was not in an operation when the others lost a member.
TEST_F(NcclConnectorTest, SurvivorsShrinkWhetherTheyHaveRevokedOrNot) {
  const std::vector<Member> members = members_named(3);
  const Ranks before = continue_nccl(1, members);
  fake.hangs = true;
  std::thread killer([&] {
    while (fake.waiting < 1) std::this_thread::yield();
    before[1]->abort(Status(StatusCode::kCancelled, "it is shot"));
  });
  on_threads(2, [&](int rank) {
    float value = 1;
    EXPECT_FALSE((rank == 0 ? before[0]->send({&value, 1}, 1, kNoDeadline)
                            : before[1]->recv({&value, 1}, 0, kNoDeadline))
                     .ok());
  });
  killer.join();
  before[2]->abort({});
  fake.hangs = false;
  const Ranks after = continue_nccl(2, {members[0], members[2]}, before);
  EXPECT_EQ(fake.revoked, 2);
  EXPECT_EQ(fake.shrunk, 2);
  expect_sums(after);
}

TEST_F(NcclConnectorTest, WhereNcclCannotDoItAllConnectAnew) {
  testing::FakeNccl& older = testing::fresh_fake_nccl(kFakeNcclWithoutGrow);
  const Ranks first = continue_nccl(1, members_named(2), {}, kFakeNcclWithoutGrow);
  const Ranks more = continue_nccl(2, members_named(3), first, kFakeNcclWithoutGrow);
  expect_sums(more);
  EXPECT_EQ(older.alive, 2 + 3);
  const Ranks fewer = continue_nccl(3, members_named(2), more, kFakeNcclWithoutGrow);
  expect_sums(fewer);
  EXPECT_EQ(older.shrunk, 2) << "it can do that";
}

// The other ranks wait for it in NCCL until `derive_max` is over, or have derived their world
// already.
TEST_F(NcclConnectorTest, WhatFailsAtOneRankIsConnectedAnewByAll) {
  const struct {
    bool grows;
    int at;
    bool late;
  } cases[] = {{true, 0, false},  {true, 1, false},  {true, 2, false}, {true, 1, true},
               {false, 0, false}, {false, 1, false}, {false, 0, true}};
  for (const auto& [grows, at, late] : cases) {
    SCOPED_TRACE(std::to_string(at) + (grows ? " grows" : " shrinks"));
    const int size = grows ? 3 : 2;
    const Ranks before = continue_nccl(1, members_named(grows ? 2 : 3));
    (late ? fake.derive_fails_late_at : fake.derive_fails_at) = at;
    const Ranks after = derive(2, size, before, 50ms);
    fake.derive_fails_at = fake.derive_fails_late_at = -1;
    expect_sums(after);
  }
}

// The loss is detected at once on one host, and ends the wait for NCCL.
TEST_F(NcclConnectorTest, ALossWhileAWorldIsMadeEndsIt) {
  for (const bool grows : {true, false}) {
    const std::vector<Member> members = members_named(4);
    const Ranks before = continue_nccl(1, grows ? members_named(2) : members);
    fake.derive_hangs = true;
    const int begun = fake.grown + fake.shrunk;
    ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
    Ranks after(3);
    on_threads(3, [&](int rank) {
      const auto at = static_cast<size_t>(rank);
      ASSERT_OK_AND_ASSIGN(
          after[at],
          testing::connect_nccl({2, rank, members_named(3)}, *store, soon(), testing::fake_nccl(),
                                std::make_unique<testing::HostDevice>(), {}, GpuWorlds::kReuse));
    });
    std::thread killer([&] {
      while (fake.grown + fake.shrunk < begun + 3) std::this_thread::yield();
      after[1]->abort(Status(StatusCode::kCancelled, "it is shot"));
    });
    on_threads(3, [&](int rank) {
      const auto at = static_cast<size_t>(rank);
      const Status status =
          after[at]->continue_from(at < before.size() ? before[at].get() : nullptr, soon());
      EXPECT_EQ(status.code(), rank == 1 ? StatusCode::kCancelled : StatusCode::kPeerLost)
          << status.to_string();
    });
    killer.join();
    fake.derive_hangs = false;
    // Neither world is left, so the survivors connect anew.
    Ranks failed;
    failed.push_back(std::move(after[0]));
    failed.push_back(std::move(after[2]));
    const int made = fake.grown + fake.shrunk;
    expect_sums(continue_nccl(3, {members[0], members[2]}, failed));
    EXPECT_EQ(fake.grown + fake.shrunk, made);
  }
}

TEST_F(NcclConnectorTest, GpusThatAreNotConnectedYetSayHow) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  ASSERT_OK_AND_ASSIGN(
      const auto communicator,
      testing::connect_nccl({1, 0, members_named(1)}, *store, soon(), testing::fake_nccl(),
                            std::make_unique<testing::HostDevice>(), {}, GpuWorlds::kReuse));
  float value = 1;
  EXPECT_FAILS(communicator->all_reduce({&value, 1}, ReduceOp::kSum, soon()),
               StatusCode::kInvalidArgument, "call continue_from()");
  ASSERT_OK(communicator->continue_from(nullptr, soon()));
  EXPECT_OK(communicator->all_reduce({&value, 1}, ReduceOp::kSum, soon()));
}

TEST_F(NcclConnectorTest, MembersThatConnectInDifferentWaysAreAllToldSo) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  on_threads(2, [&](int rank) {
    EXPECT_FAILS(
        testing::connect_nccl({1, rank, members_named(2)}, *store, soon(), testing::fake_nccl(),
                              std::make_unique<testing::HostDevice>(), {},
                              rank == 0 ? GpuWorlds::kFresh : GpuWorlds::kReuse),
        StatusCode::kInvalidArgument, "gpu_worlds of rank");
  });
}

}  // namespace
}  // namespace ffdl::comm
