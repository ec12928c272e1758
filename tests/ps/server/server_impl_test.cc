#include "ps/server/server_impl.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "ffdl/ps/learner.h"
#include "support/fork_child.h"
#include "support/segment_name.h"
#include "support/status_matchers.h"
#include "support/stop_process.h"

// Tests the server beside other processes: deaths, forks, ends.
namespace ffdl {
namespace {

using namespace std::chrono_literals;

ParameterServerOptions named_options(std::string name) {
  ParameterServerOptions options;
  options.name = std::move(name);
  options.parameters = 1'000;
  options.rule.learning_rate = 1;
  return options;
}

// Waits for `condition`, which another process makes true. Returns the time that this took.
template <class Condition>
std::chrono::nanoseconds wait_for(Condition&& condition) {
  const Time begin = std::chrono::steady_clock::now();
  while (!condition() && std::chrono::steady_clock::now() - begin < 60s) std::this_thread::yield();
  return std::chrono::steady_clock::now() - begin;
}

// Forks a child that attaches to slot 0, pushes `samples` ones and waits to be killed.
pid_t start_learner(const std::string& name, uint64_t samples) {
  int ready[2];
  EXPECT_EQ(pipe(ready), 0);
  const pid_t child = testing::fork_child();
  if (child != 0) {
    char byte = 0;
    close(ready[1]);
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
  }
  auto learner = Learner::attach(name, deadline_in(60s), {.slot = 0});
  if (!learner.ok()) _exit(1);
  const std::vector<float> ones(1'000, 1.0F);
  for (uint64_t i = 0; i < samples; ++i) {
    if (!(*learner)->push(ones, {.begin = i, .end = i + 1}).ok()) _exit(1);
  }
  if (write(ready[1], "x", 1) != 1) _exit(1);
  while (true) pause();
}

void end(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(ServerImpl, DeadLearnersSlotIsFreedAndItsGradientFolded) {
  const testing::SegmentName name;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(named_options(name)));
  const pid_t child = start_learner(name, 1);  // published before the server runs
  ASSERT_OK(server->start());
  EXPECT_TRUE(server->stats().learners[0].attached);
  testing::stop_process(child);
  EXPECT_LT(wait_for([&] { return server->version() == 1; }), 60s);
  EXPECT_TRUE(server->stats().learners[0].attached);  // a stopped process is not dead
  end(child);
  EXPECT_LT(wait_for([&] { return !server->stats().learners[0].attached; }), 60s);
  EXPECT_EQ(server->stats().learners_reclaimed, 1U);
  EXPECT_EQ(server->weights()[0], -1.0F);
}

TEST(ServerImpl, SlotOfADeadLearnerIsTakenEvenWithoutAServer) {
  const testing::SegmentName name;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(named_options(name)));
  end(start_learner(name, 3));
  ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(name.text(), deadline_in(60s), {.slot = 0}));
  EXPECT_EQ(learner->committed(0), 1U);  // samples 1 and 2 were only added up, in the dead process
  EXPECT_EQ(server->stats().learners_reclaimed, 1U);
  EXPECT_TRUE(server->stats().learners[0].attached);
}

TEST(ServerImpl, BoundedLearnerDoesNotWaitForTheDead) {
  const testing::SegmentName name;
  ParameterServerOptions options = named_options(name);
  options.synchrony = Synchrony::kBulk;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(options));
  const pid_t child = start_learner(name, 0);
  ASSERT_OK(server->start());
  ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(name.text(), deadline_in(60s)));
  const std::vector<float> ones(1'000, 1.0F);
  ASSERT_OK(learner->push(ones, {.begin = 0, .end = 1}));
  EXPECT_FAILS(learner->begin_mini_batch(deadline_in(20ms)), StatusCode::kTimeout, "slowest");
  end(child);
  ASSERT_OK(learner->begin_mini_batch(deadline_in(60s)));
  EXPECT_EQ(server->weights()[0], -1.0F);
}

TEST(ServerImpl, KilledServersSuccessorGoesOnAndVersionNeverGoesBack) {
  const testing::SegmentName name;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = testing::fork_child();
  if (child == 0) {
    auto server = ParameterServer::create(named_options(name));
    if (!server.ok() || !(*server)->start().ok() || write(ready[1], "x", 1) != 1) _exit(1);
    while (true) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(name.text(), deadline_in(60s)));
  const std::vector<float> ones(1'000, 1.0F);
  ASSERT_OK(learner->push(ones, {.begin = 0, .end = 1}));
  ASSERT_OK(learner->flush(deadline_in(60s)));
  end(child);
  ASSERT_OK(learner->push(ones, {.begin = 1, .end = 2}));  // published, for the successor
  EXPECT_FAILS(learner->flush(deadline_in(5ms)), StatusCode::kTimeout, "it is dead: adopt");
  ASSERT_OK_AND_ASSIGN(auto successor, ParameterServer::adopt(name.text()));
  EXPECT_EQ(successor->version(), 1U);
  ASSERT_OK(successor->start());
  ASSERT_OK(learner->flush(deadline_in(60s)));
  EXPECT_EQ(successor->weights()[0], -2.0F);
  EXPECT_EQ(successor->stats().epoch, 2U);
  EXPECT_EQ(successor->stats().partitions[0].samples, 2U);
}

TEST(ServerImpl, ForkedChildOwnsNeitherServerNorSlot) {
  const testing::SegmentName name;
  ASSERT_OK_AND_ASSIGN(auto server, ParameterServer::create(named_options(name)));
  ASSERT_OK_AND_ASSIGN(auto learner, Learner::attach(*server, deadline_in(60s)));
  const pid_t child = testing::fork_child();
  if (child == 0) {
    const std::vector<float> ones(1'000, 1.0F);
    const Status pushed = learner->push(ones, {.begin = 0, .end = 1}).status();
    const bool refused =
        pushed.code() == StatusCode::kCancelled && server->start().code() == StatusCode::kCancelled;
    learner.reset();
    server.reset();  // the copy: the parent's segment stays
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(name.exists());
  ASSERT_OK(server->start());
  ASSERT_OK(learner->push(std::vector<float>(1'000, 1.0F), {.begin = 0, .end = 1}));
  ASSERT_OK(learner->flush(deadline_in(60s)));
}

}  // namespace
}  // namespace ffdl
