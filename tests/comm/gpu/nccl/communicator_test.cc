#include "comm/gpu/nccl/communicator.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "support/exit_code.h"
#include "support/fake_nccl.h"
#include "support/fork_child.h"
#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"
#include "support/times.h"

namespace ffdl::comm {
namespace {

using namespace std::chrono_literals;
using testing::connect_nccl;
using testing::fake_nccl;
using testing::HostDevice;
using testing::members_named;
using testing::nccl_ranks;
using testing::on_each;
using testing::on_threads;
using testing::Ranks;
using testing::soon;

using Library = Result<std::shared_ptr<const NcclLibrary>>;

class NcclCommunicatorTest : public ::testing::Test {
 protected:
  ~NcclCommunicatorTest() override {
    EXPECT_EQ(fake.alive, 0) << "communicators of NCCL that nobody ended";
  }
  // Waits until all ranks are in an operation that does not end.
  void wait_for_operations(int ranks) const {
    while (fake.waiting < ranks) std::this_thread::yield();
  }
  testing::FakeNccl& fake = testing::fresh_fake_nccl();
};

Status sum_up(Communicator& communicator, float& value, Time deadline) {
  return communicator.all_reduce({&value, 1}, ReduceOp::kSum, deadline);
}

TEST_F(NcclCommunicatorTest, CallsThatAreInProgressAreWaitedFor) {
  fake.polls = 20;
  on_each(nccl_ranks(1, members_named(2)), [](Communicator& communicator, int rank) {
    EXPECT_EQ(communicator.backend(), Backend::kNccl);
    for (int turn = 0; turn < 3; ++turn) {
      auto value = static_cast<float>(rank + turn);
      ASSERT_OK(sum_up(communicator, value, soon()));
      EXPECT_EQ(value, static_cast<float>(1 + 2 * turn));
    }
  });
}

TEST_F(NcclCommunicatorTest, WhoLeavesSendsWhatIsOnItsWay) {
  on_each(nccl_ranks(1, members_named(2)), [](Communicator& communicator, int) {
    float value = 1;
    EXPECT_OK(sum_up(communicator, value, soon()));
  });
  EXPECT_EQ(fake.left, 2);
  EXPECT_EQ(fake.aborted, 0);
}

// The other rank has arrived, so the GPUs work. NCCL does not know which rank is missing.
TEST_F(NcclCommunicatorTest, ADeadlineEndsWhatTheGpusDoNotFinish) {
  const Ranks ranks = nccl_ranks(1, members_named(2));
  fake.hangs = true;
  on_each(ranks, [&](Communicator& communicator, int rank) {
    float value = 1;
    const Status status = sum_up(communicator, value, rank == 0 ? deadline_in(200ms) : soon());
    EXPECT_EQ(status.code(), rank == 0 ? StatusCode::kTimeout : StatusCode::kPeerLost)
        << status.to_string();
    EXPECT_EQ(communicator.barrier(soon()).code(), status.code()) << "it lives on";
  });
  EXPECT_EQ(fake.aborted, 2);
}

TEST_F(NcclCommunicatorTest, AnErrorOfTheNetworkIsALostPeer) {
  const Ranks ranks = nccl_ranks(1, members_named(2));
  fake.hangs = true;
  std::thread network([&] {
    wait_for_operations(2);
    fake.async_error = static_cast<int>(nccl::Code::kRemoteError);
  });
  on_each(ranks, [](Communicator& communicator, int) {
    float value = 1;
    EXPECT_EQ(sum_up(communicator, value, soon()).code(), StatusCode::kPeerLost);
  });
  network.join();
}

// NCCL's own send completes when the message is on its way.
TEST_F(NcclCommunicatorTest, ASendThatTheOtherGpuDoesNotTakeIsNotOk) {
  const Ranks ranks = nccl_ranks(1, members_named(2));
  fake.hangs = true;
  on_each(ranks, [](Communicator& communicator, int rank) {
    float value = 1;
    const Status status = rank == 0 ? communicator.send({&value, 1}, 1, deadline_in(200ms))
                                    : communicator.recv({&value, 1}, 0, soon());
    EXPECT_EQ(status.code(), rank == 0 ? StatusCode::kTimeout : StatusCode::kPeerLost)
        << status.to_string();
  });
}

// NCCL's kernels wait for a lost rank without end. The ranks learn of the loss outside NCCL.
TEST_F(NcclCommunicatorTest, SurvivorsOfALostMemberGoOnInANewWorld) {
  const Ranks ranks = nccl_ranks(1, members_named(3));
  fake.hangs = true;
  std::thread killer([&] {
    wait_for_operations(3);
    ranks[1]->abort(Status(StatusCode::kCancelled, "it is shot"));
  });
  on_each(ranks, [](Communicator& communicator, int rank) {
    float value = 1;
    const Status status = sum_up(communicator, value, kNoDeadline);
    EXPECT_EQ(status.code(), rank == 1 ? StatusCode::kCancelled : StatusCode::kPeerLost)
        << status.to_string();
  });
  killer.join();
  EXPECT_EQ(fake.aborted, 3);
  fake.hangs = false;
  on_each(nccl_ranks(2, members_named(2)), [](Communicator& communicator, int rank) {
    auto value = static_cast<float>(rank + 1);
    ASSERT_OK(sum_up(communicator, value, soon()));
    EXPECT_EQ(value, 3);
  });
}

TEST_F(NcclCommunicatorTest, AKilledProcessIsLostWhileTheGpusWork) {
  const TempFolder folder;
  fake.alone = true;
  const auto connect = [&](int rank) {
    auto store = open_store("file://" + folder.path(), system_runtime());
    return connect_nccl({1, rank, members_named(2)}, **store, soon());
  };
  float value = 1;
  const pid_t child = testing::fork_child();
  if (child == 0) {
    const auto communicator = connect(1);
    _exit(communicator.ok() && sum_up(**communicator, value, kNoDeadline).ok() ? 0 : 1);
  }
  ASSERT_OK_AND_ASSIGN(const auto communicator, connect(0));
  std::thread killer([&] {
    wait_for_operations(1);  // it began after both ranks had agreed on it
    kill(child, SIGKILL);
  });
  EXPECT_FAILS(sum_up(*communicator, value, kNoDeadline), StatusCode::kPeerLost,
               "rank 1 'm1' has died");
  killer.join();
  EXPECT_EQ(testing::exit_code(child), -SIGKILL);
}

TEST_F(NcclCommunicatorTest, BuffersOfTheHostGoThroughTheHost) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  on_threads(2, [&](int rank) {
    float on_host = 1;
    float on_device = 2;
    auto device = std::make_unique<HostDevice>();
    const HostDevice& seen = *device;
    device->keep_on_host(&on_host);
    ASSERT_OK_AND_ASSIGN(
        const auto communicator,
        connect_nccl({1, rank, members_named(2)}, *store, soon(), fake_nccl(), std::move(device)));
    ASSERT_OK(sum_up(*communicator, on_host, soon()));
    EXPECT_EQ(on_host, 2);
    EXPECT_EQ(seen.followed(), 0);
    const Buffer both[] = {{&on_host, 1}, {&on_device, 1}};
    EXPECT_FAILS(communicator->all_reduce(both, ReduceOp::kSum, soon()),
                 StatusCode::kInvalidArgument, "some buffers are in a GPU's memory");
    ASSERT_OK(sum_up(*communicator, on_device, soon()));
    EXPECT_EQ(on_device, 4);
    EXPECT_EQ(seen.followed(), 1) << "it did not wait for what the default stream was given";
    int16_t small = 1;
    EXPECT_FAILS(communicator->all_reduce({&small, 1, DType::kInt16}, ReduceOp::kSum, soon()),
                 StatusCode::kUnimplemented, "use int32");
    EXPECT_OK(communicator->barrier(soon()));
  });
}

// No rank waits for one that cannot connect.
TEST_F(NcclCommunicatorTest, ARankWithoutNcclIsNamedToTheOthers) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  on_threads(3, [&](int rank) {
    Library library = fake_nccl();
    if (rank == 1) library = Status(StatusCode::kUnimplemented, "load NCCL: it is not here");
    EXPECT_FAILS(connect_nccl({1, rank, members_named(3)}, *store, soon(), std::move(library)),
                 StatusCode::kUnimplemented,
                 rank == 1 ? "load NCCL: it is not here"
                           : "rank 1 'm1' has no usable GPU or no usable NCCL");
  });
}

// The message names both members, the GPU, and the two ways out.
TEST_F(NcclCommunicatorTest, TwoMembersWithOneGpuAreNamed) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  fake.connect_error = static_cast<int>(nccl::Code::kInvalidUsage);
  fake.last_error = "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000";
  on_threads(2, [&](int rank) {
    const auto made = connect_nccl({1, rank, members_named(2)}, *store, soon());
    for (const char* text : {"'m1' and 'm0' use the same GPU", "both on CUDA device 3b000",
                             "'ffdl run --nproc-per-node gpu'", "Backend::kDeviceShm"}) {
      EXPECT_FAILS(made, StatusCode::kInvalidArgument, text);
    }
  });
}

TEST_F(NcclCommunicatorTest, UnlikeVersionsAreRefused) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  const auto newer = fake_nccl();
  fake.version = 22809;
  const auto older = fake_nccl();
  on_threads(2, [&](int rank) {
    const auto& library = rank == 0 ? newer : older;
    EXPECT_FAILS(connect_nccl({1, rank, members_named(2)}, *store, soon(), library),
                 StatusCode::kInvalidArgument,
                 rank == 0 ? "rank 1 'm1' has NCCL 2.28.9, this rank has 2.30.7"
                           : "rank 0 'm0' has NCCL 2.30.7, this rank has 2.28.9");
  });
}

TEST_F(NcclCommunicatorTest, ConnectingEndsWithALostMember) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  fake.hangs = true;
  const auto look = [this]() -> Status {
    if (fake.alive < 2) return {};
    return Status(StatusCode::kCancelled, "somebody pressed a key");
  };
  on_threads(2, [&](int rank) {
    EXPECT_EQ(
        connect_nccl({1, rank, members_named(2)}, *store, soon(), fake_nccl(),
                     std::make_unique<HostDevice>(), rank == 0 ? look : std::function<Status()>())
            .status()
            .code(),
        rank == 0 ? StatusCode::kCancelled : StatusCode::kPeerLost);
  });
  EXPECT_EQ(fake.aborted, 2);
}

TEST_F(NcclCommunicatorTest, LookEndsTheWaitForAGpu) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  const auto look = [this]() -> Status {
    if (fake.waiting == 0) return {};
    return Status(StatusCode::kCancelled, "somebody pressed a key");
  };
  ASSERT_OK_AND_ASSIGN(const auto communicator,
                       connect_nccl({1, 0, members_named(1)}, *store, soon(), fake_nccl(),
                                    std::make_unique<HostDevice>(), look));
  fake.hangs = true;
  float value = 1;
  EXPECT_FAILS(sum_up(*communicator, value, kNoDeadline), StatusCode::kCancelled, "pressed a key");
}

TEST_F(NcclCommunicatorTest, AForkOfAMemberIsNone) {
  const Ranks ranks = nccl_ranks(1, members_named(1));
  const pid_t child = testing::fork_child();
  if (child == 0) _exit(ranks[0]->barrier(soon()).code() == StatusCode::kCancelled ? 0 : 1);
  EXPECT_EQ(testing::exit_code(child), 0);
  EXPECT_OK(ranks[0]->barrier(soon()));
}

// Sums before and after a suspension are right, and host operations go on. In between a sum is
// refused, and the communicator stays usable.
TEST_F(NcclCommunicatorTest, MemoryIsGivenBackBetweenOperations) {
  for (const bool keeps : {false, true}) {
    fake.keeps_memory = keeps;
    on_each(nccl_ranks(1, members_named(2)), [](Communicator& communicator, int rank) {
      EXPECT_FAILS(communicator.resume(soon()), StatusCode::kInvalidArgument,
                   "it is not suspended");
      for (int turn = 0; turn < 2; ++turn) {
        ASSERT_OK(communicator.suspend(soon()));
        EXPECT_FAILS(communicator.suspend(soon()), StatusCode::kInvalidArgument, "in turns");
        auto value = static_cast<float>(rank + turn);
        EXPECT_FAILS(sum_up(communicator, value, soon()), StatusCode::kInvalidArgument,
                     "it is suspended; call resume() at all ranks first");
        EXPECT_OK(communicator.barrier(soon()));
        ASSERT_OK(communicator.resume(soon()));
        ASSERT_OK(sum_up(communicator, value, soon()));
        EXPECT_EQ(value, static_cast<float>(1 + 2 * turn));
      }
    });
    EXPECT_EQ(fake.suspended, 4);
    EXPECT_EQ(fake.resumed, 4);
    EXPECT_EQ(fake.misused, 0);
  }
}

TEST_F(NcclCommunicatorTest, WhoDoesNotSuspendWithTheOthersIsNamed) {
  on_each(nccl_ranks(1, members_named(2)), [](Communicator& communicator, int rank) {
    ASSERT_OK(communicator.suspend(soon()));
    ASSERT_OK(communicator.resume(soon()));
    float value = 1;
    const Status status = rank == 0 ? communicator.suspend(soon())
                                    : communicator.all_reduce({&value, 1}, ReduceOp::kSum, soon());
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.to_string();
  });
}

// NCCL would wait for the lost member without end.
TEST_F(NcclCommunicatorTest, AMemberThatIsLostWhileSuspendedEndsNobodysWait) {
  const Ranks ranks = nccl_ranks(1, members_named(2));
  on_each(ranks, [](Communicator& communicator, int) { ASSERT_OK(communicator.suspend(soon())); });
  fake.hangs = true;
  ranks[1]->abort(Status(StatusCode::kCancelled, "it is shot"));
  EXPECT_EQ(ranks[0]->resume(kNoDeadline).code(), StatusCode::kPeerLost);
  EXPECT_EQ(fake.aborted, 1);
}

}  // namespace
}  // namespace ffdl::comm
