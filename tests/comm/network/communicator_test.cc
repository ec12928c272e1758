#include "comm/network/communicator.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <thread>

#include "support/fork_child.h"
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
class LinkedProcesses : public testing::RankProcesses,
                        public ::testing::WithParamInterface<Backend> {
 protected:
  LinkedProcesses() : RankProcesses(GetParam()) {}
  void SetUp() override {
    if (GetParam() == Backend::kGloo && !have_gloo().ok()) GTEST_SKIP() << have_gloo().to_string();
  }
};

// Sums sizes that fit into the first message, and others. Returns 0 if the loss of a peer ended it.
// A victim is killed after its first sum, when all have connected.
int link_until_lost(Communicator& communicator, bool is_victim) {
  std::thread killer;
  const auto all =
      static_cast<float>(communicator.world().size() * (communicator.world().size() + 1) / 2);
  for (uint64_t turn = 0;; ++turn) {
    std::vector<float> values(turn % 2 == 0 ? 100 : 400'001,
                              static_cast<float>(communicator.world().rank + 1));
    const Status status =
        communicator.all_reduce({values.data(), values.size()}, ReduceOp::kSum, soon());
    if (status.code() == StatusCode::kPeerLost) return 0;
    if (!status.ok()) {
      std::cerr << "turn " << turn << ": " << status.to_string() << '\n';
      return 1;
    }
    if (values.front() != all || values.back() != all) return 2;
    if (is_victim && turn == 0) killer = std::thread([] { kill(getpid(), SIGKILL); });
  }
}

TEST_P(LinkedProcesses, SurvivorsOfAKilledPeerAreTold) {
  for (const int victim : {0, 2}) {
    std::vector<pid_t> children;
    for (int rank = 0; rank < 3; ++rank) {
      children.push_back(start(rank, 3, [&](Communicator& communicator) {
        return link_until_lost(communicator, rank == victim);
      }));
    }
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(exit_code(children[static_cast<size_t>(rank)]), rank == victim ? -SIGKILL : 0)
          << rank;
    }
  }
}

// The socket of the stopped rank accepts some bytes and no more. Then it is killed, while the root
// only sends.
TEST_P(LinkedProcesses, ARootThatOnlySendsIsToldOfTheDeathOfOneThatStopped) {
  const pid_t child = start(1, 2, [](Communicator& communicator) {
    std::vector<float> values(20'000'000);
    static_cast<void>(communicator.broadcast({values.data(), values.size()}, 0, soon()));
    return 0;
  });
  ASSERT_OK_AND_ASSIGN(const auto communicator, connect(0, 2));
  testing::stop_process(child);
  std::thread killer([&] { kill(child, SIGKILL); });
  std::vector<float> values(20'000'000);
  EXPECT_EQ(communicator->broadcast({values.data(), values.size()}, 0, soon()).code(),
            StatusCode::kPeerLost);
  killer.join();
  EXPECT_EQ(exit_code(child), -SIGKILL);
}

TEST_P(LinkedProcesses, AStoppedPeerIsATimeoutAtTheDeadline) {
  const pid_t child = start(1, 2, [](Communicator& communicator) {
    while (communicator.barrier(soon()).ok()) {
    }
    return 0;
  });
  ASSERT_OK_AND_ASSIGN(const auto communicator, connect(0, 2));
  testing::stop_process(child);
  Status status;
  while (status.ok()) status = communicator->barrier(deadline_in(50ms));
  EXPECT_FAILS(status, StatusCode::kTimeout, "rank 1 'm1' had not arrived by the deadline");
  kill(child, SIGKILL);
  EXPECT_EQ(exit_code(child), -SIGKILL);
}

TEST_P(LinkedProcesses, AForkIsNoMember) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  std::vector<std::unique_ptr<Communicator>> ranks(2);
  testing::on_threads(2, [&](int rank) {
    auto made = connect_communicator({1, rank, testing::members_named(2)}, *store, soon(),
                                     {.backend = GetParam()});
    ASSERT_OK(made);
    ranks[static_cast<size_t>(rank)] = std::move(made).value();
  });
  const pid_t child = testing::fork_child();
  if (child == 0) {
    const bool refused = ranks[0]->barrier(soon()).code() == StatusCode::kCancelled;
    ranks[0]->abort({});
    ranks.clear();
    _exit(refused ? 0 : 1);
  }
  EXPECT_EQ(exit_code(child), 0);
  testing::on_each(ranks, [](Communicator& c, int) { EXPECT_OK(c.barrier(soon())); });
}

INSTANTIATE_TEST_SUITE_P(BackEnds, LinkedProcesses,
                         ::testing::Values(Backend::kTcp, Backend::kGloo), [](const auto& test) {
                           return test.param == Backend::kTcp ? "tcp" : "gloo";
                         });

}  // namespace
}  // namespace ffdl::comm
