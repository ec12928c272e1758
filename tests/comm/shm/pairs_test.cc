#include "comm/shm/pairs.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/limits.h"
#include "ffdl/comm/operation_queue.h"
#include "support/rank_processes.h"
#include "support/status_matchers.h"
#include "support/stop_process.h"
#include "support/times.h"

namespace ffdl::comm {
namespace {

using namespace std::chrono_literals;
using testing::exit_code;
using testing::soon;

// Runs ranks as processes, which can be killed and stopped. tests/conformance tests the documented
// behaviour.
class ShmPairsProcesses : public testing::RankProcesses {};

// Takes many turns around the parts of a mailbox, and not a whole number of them.
constexpr uint64_t kNumbers = 5 * base::kMailboxParts * base::kMailboxPartBytes / 8 + 1;

int64_t value_at(uint64_t message, uint64_t i) { return static_cast<int64_t>(message * 31 + i); }

Status send_one(Communicator& communicator, int to, uint64_t message, Time deadline) {
  std::vector<int64_t> values(kNumbers);
  for (uint64_t i = 0; i < kNumbers; ++i) values[i] = value_at(message, i);
  return communicator.send({values.data(), kNumbers, DType::kInt64}, to, deadline);
}

Status recv_one(Communicator& communicator, int from, uint64_t message, Time deadline) {
  std::vector<int64_t> values(kNumbers);
  FFDL_RETURN_IF_ERROR(communicator.recv({values.data(), kNumbers, DType::kInt64}, from, deadline));
  for (uint64_t i = 0; i < kNumbers; ++i) {
    if (values[i] != value_at(message, i)) return Status(StatusCode::kInternal, "a wrong message");
  }
  return {};
}

// Returns 0 if the end of the other side is reported as the loss of a peer and no message was
// wrong.
int told(const Status& status) {
  return status.code() == StatusCode::kPeerLost ? 0 : static_cast<int>(status.code());
}

int send_until_lost(Communicator& communicator) {
  Status status;
  for (uint64_t message = 0; status.ok(); ++message) {
    status = send_one(communicator, 0, message, deadline_in(60s));
  }
  return told(status);
}

int recv_until_lost(Communicator& communicator) {
  Status status;
  for (uint64_t message = 0; status.ok(); ++message) {
    status = recv_one(communicator, 0, message, deadline_in(60s));
  }
  return told(status);
}

TEST_F(ShmPairsProcesses, AKilledSenderIsLostAtOnce) {
  const pid_t victim = start(1, 2, send_until_lost);
  ASSERT_OK_AND_ASSIGN(const auto communicator, connect(0, 2));
  for (uint64_t message = 0; message < 5; ++message) {
    ASSERT_OK(recv_one(*communicator, 1, message, soon()));
  }
  kill(victim, SIGKILL);
  const Time killed = std::chrono::steady_clock::now();
  Status status;
  for (uint64_t message = 5; status.ok(); ++message) {
    status = recv_one(*communicator, 1, message, soon());
  }
  EXPECT_FAILS(status, StatusCode::kPeerLost, "rank 1 'm1' has died");
  EXPECT_LT(std::chrono::steady_clock::now() - killed, 30s);  // far from any deadline
  EXPECT_EQ(exit_code(victim), -SIGKILL);
  EXPECT_EQ(communicator->barrier(soon()).code(), StatusCode::kPeerLost);
}

TEST_F(ShmPairsProcesses, AKilledReceiverIsLostAtOnce) {
  const pid_t victim = start(1, 2, recv_until_lost);
  ASSERT_OK_AND_ASSIGN(const auto communicator, connect(0, 2));
  for (uint64_t message = 0; message < 5; ++message) {
    ASSERT_OK(send_one(*communicator, 1, message, soon()));
  }
  kill(victim, SIGKILL);
  const Time killed = std::chrono::steady_clock::now();
  Status status;
  while (status.ok()) status = send_one(*communicator, 1, 0, soon());
  EXPECT_FAILS(status, StatusCode::kPeerLost, "rank 1 'm1' has died");
  EXPECT_LT(std::chrono::steady_clock::now() - killed, 30s);
  EXPECT_EQ(exit_code(victim), -SIGKILL);
}

TEST_F(ShmPairsProcesses, AStoppedSenderIsATimeout) {
  const pid_t victim = start(1, 2, send_until_lost);
  ASSERT_OK_AND_ASSIGN(const auto communicator, connect(0, 2));
  ASSERT_OK(recv_one(*communicator, 1, 0, soon()));
  testing::stop_process(victim);
  Status status;
  // Messages that it sent before have arrived.
  for (uint64_t message = 1; status.ok(); ++message) {
    status = recv_one(*communicator, 1, message, deadline_in(200ms));
  }
  EXPECT_FAILS(status, StatusCode::kTimeout, "rank 1 'm1' had not arrived");
  kill(victim, SIGCONT);
  EXPECT_EQ(exit_code(victim), 0);
}

// The death of a third rank does not affect a pair until both meet it in a collective.
TEST_F(ShmPairsProcesses, TheDeathOfAThirdDisturbsNoPair) {
  const pid_t victim = start(2, 3, [](Communicator&) { return pause(); });
  const pid_t sender = start(1, 3, [](Communicator& communicator) {
    Status status;
    for (uint64_t message = 0; status.ok() && message < 5; ++message) {
      status = send_one(communicator, 0, message, soon());
    }
    return told(status.ok() ? communicator.barrier(soon()) : status);
  });
  ASSERT_OK_AND_ASSIGN(const auto communicator, connect(0, 3));
  kill(victim, SIGKILL);
  EXPECT_EQ(exit_code(victim), -SIGKILL);
  for (uint64_t message = 0; message < 5; ++message) {
    ASSERT_OK(recv_one(*communicator, 1, message, soon()));
  }
  EXPECT_EQ(communicator->barrier(soon()).code(), StatusCode::kPeerLost);
  EXPECT_EQ(exit_code(sender), 0);
}

TEST(ShmPairs, AQueueRunsThem) {
  const auto ranks = make_local_communicators(1, testing::members_named(2)).value();
  testing::on_each(ranks, [](Communicator& communicator, int rank) {
    OperationQueue queue(communicator);
    int32_t value = rank == 0 ? 7 : 0;
    const Buffer buffer = {&value, 1, DType::kInt32};
    const Operation operation =
        rank == 0 ? Operation{.kind = Collective::kSend, .in = {&buffer, 1}, .peer = 1}
                  : Operation{.kind = Collective::kRecv, .out = {&buffer, 1}, .peer = 0};
    ASSERT_OK_AND_ASSIGN(const auto ticket, queue.start(operation, deadline_in(60s)));
    ASSERT_OK(queue.wait(ticket));
    EXPECT_EQ(value, 7);
  });
}

}  // namespace
}  // namespace ffdl::comm
