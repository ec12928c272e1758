#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "conformance/communicator_conformance.h"
#include "support/abort_while_running.h"
#include "support/elements.h"
#include "support/status_matchers.h"

// Tests that every back end sends and receives as documented.
namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::Elements;
using testing::on_each;
using testing::Ranks;

// Sends from each rank to each other. The two ranks split their lists at different positions, at
// odd addresses.
TEST_P(CommunicatorConformance, SendsToEachOther) {
  for (const int count : {2, 3, 8}) {
    const Ranks ranks = make(count);
    for (const uint64_t size : {0U, 1U, 8191U, 50'001U}) {
      on_each(ranks, [&](Communicator& communicator, int rank) {
        for (int from = 0; from < count; ++from) {
          for (int to = 0; to < count; ++to) {
            if (from == to) continue;
            Elements elements(DType::kFloat64, size, rank == from ? 1 : 3);
            const uint64_t cut = size * static_cast<uint64_t>(rank) / static_cast<uint64_t>(count);
            const Buffer list[] = {elements.part(0, cut), elements.part(cut, size - cut)};
            if (rank == from) {
              for (uint64_t i = 0; i < size; ++i) elements.set(i, tagged(from * count + to, i));
              ASSERT_OK(communicator.send(list, to, soon()));
            } else if (rank == to) {
              ASSERT_OK(communicator.recv(list, from, soon()));
              for (uint64_t i = 0; i < size; ++i) {
                ASSERT_EQ(elements.get(i), tagged(from * count + to, i)) << size;
              }
            }
          }
        }
      });
    }
  }
}

// Rank 0 sends more messages than the others. Messages do not change the counters of collectives.
TEST_P(CommunicatorConformance, MessagesArriveInOrderAndBetweenCollectives) {
  const Ranks ranks = make(3);
  on_each(ranks, [&](Communicator& communicator, int rank) {
    for (int32_t turn = 0; turn < 100; ++turn) {
      for (int32_t i = 0; i < 3; ++i) {
        int32_t value = 10 * turn + i;
        const int peer = 1 + i % 2;
        const Buffer buffer = {&value, 1, DType::kInt32};
        if (rank == 0) ASSERT_OK(communicator.send(buffer, peer, soon()));
        if (rank != peer) continue;
        value = -1;
        ASSERT_OK(communicator.recv(buffer, 0, soon()));
        ASSERT_EQ(value, 10 * turn + i);
      }
      int32_t sum = 1;
      ASSERT_OK(communicator.all_reduce({&sum, 1, DType::kInt32}, ReduceOp::kSum, soon()));
      ASSERT_EQ(sum, 3);
    }
  });
}

TEST_P(CommunicatorConformance, SendWaitsForRecvAndBothCannotSendFirst) {
  int8_t value = 1;
  for (const uint64_t count : {0U, 1U}) {
    const Ranks ranks = make(2);
    EXPECT_FAILS(ranks[0]->send({&value, count, DType::kInt8}, 1, deadline_in(200ms)),
                 StatusCode::kTimeout, "rank 1 'm1' had not arrived");
    EXPECT_FAILS(first_failure(*ranks[1]), StatusCode::kPeerLost, "rank 0 'm0'");
  }
  const Ranks ranks = make(2);
  std::atomic<int> told = 0;
  std::latch both(2);
  on_each(ranks, [&](Communicator& communicator, int rank) {
    int8_t mine = 1;
    both.arrive_and_wait();
    const Status status = communicator.send({&mine, 1, DType::kInt8}, 1 - rank, deadline_in(3s));
    EXPECT_FALSE(status.ok());
    if (status.message().find("let one of the two receive first") != std::string::npos) ++told;
  });
  EXPECT_GE(told, 1);
}

TEST_P(CommunicatorConformance, SenderAndReceiverThatDisagreeAreToldWhatBothDo) {
  for (const DType type : {DType::kInt32, DType::kInt16}) {
    const Ranks ranks = make(3);
    on_each(ranks, [&](Communicator& communicator, int rank) {
      int32_t values[3] = {};
      if (rank == 2) return;
      const Status status = rank == 0 ? communicator.send({values, 3, DType::kInt32}, 1, soon())
                                      : communicator.recv({values, 2, type}, 0, soon());
      EXPECT_FAILS(status, StatusCode::kInvalidArgument, "send of 3 int32 to rank 1");
      EXPECT_FAILS(status, StatusCode::kInvalidArgument, "from rank 0");
      EXPECT_EQ(communicator.barrier(soon()).code(), StatusCode::kInvalidArgument);
    });
    EXPECT_FALSE(ranks[2]->barrier(soon()).ok());
  }
}

TEST_P(CommunicatorConformance, OnlyAnotherMemberIsAPeer) {
  const Ranks ranks = make(2);
  const Buffer nothing;
  for (const int peer : {0, 2, -1}) {
    EXPECT_FAILS(ranks[0]->send(nothing, peer, soon()), StatusCode::kInvalidArgument,
                 "another member");
    EXPECT_FAILS(ranks[0]->recv(nothing, peer, soon()), StatusCode::kInvalidArgument,
                 "another member");
  }
  on_each(ranks, [&](Communicator& c, int) { EXPECT_OK(c.barrier(soon())); });
}

TEST_P(CommunicatorConformance, AbortAndLeavingEndASendAndARecv) {
  for (const bool sends : {false, true}) {
    Ranks ranks = make(3);
    int8_t value = 0;
    std::thread other([&] { ranks[0]->abort(Status(StatusCode::kWorldChanged, "a new world")); });
    const Buffer buffer = {&value, 1, DType::kInt8};
    EXPECT_FAILS(
        sends ? ranks[0]->send(buffer, 1, kNoDeadline) : ranks[0]->recv(buffer, 1, kNoDeadline),
        StatusCode::kWorldChanged, "a new world");
    other.join();
    EXPECT_FAILS(sends ? ranks[1]->send(buffer, 0, soon()) : ranks[1]->recv(buffer, 0, soon()),
                 StatusCode::kPeerLost, "rank 0 'm0'");
  }
}

// A thread that accesses the buffer after abort() is killed.
TEST_P(CommunicatorConformance, AfterAbortNobodyTouchesTheBufferOfAMessage) {
  constexpr uint64_t kBytes = uint64_t{1} << 20;
  for (int turn = 0; turn < 20; ++turn) {
    testing::abort_while_running(
        make(2), kBytes, 3 + turn % 4, [turn](Communicator& communicator, int rank, void* memory) {
          const Buffer buffer = {memory, kBytes, DType::kInt8};
          return rank == turn % 2 ? communicator.send(buffer, 1 - rank, soon())
                                  : communicator.recv(buffer, 1 - rank, soon());
        });
  }
}

}  // namespace
}  // namespace ffdl
