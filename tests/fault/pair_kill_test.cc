#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <set>
#include <thread>

#include "ffdl/comm/all_reduce_subscriber.h"
#include "ffdl/comm/communicator.h"
#include "ffdl/diagnose.h"
#include "support/exit_code.h"
#include "support/fork_child.h"
#include "support/ranks.h"
#include "support/shared_board.h"
#include "support/temp_folder.h"

// Senders, receivers, members and listeners are killed at random moments. Those who live must be
// told, and never get a wrong message or sum.
namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::exit_code;

constexpr int kKills = 100;
constexpr uint64_t kElementsMax = 40'000;  // more than a mailbox holds

enum Outcome { kTold = 0, kWrong, kWrongError, kNotConnected };

Outcome outcome_of(const Status& status) {
  if (status.code() == StatusCode::kInternal) return kWrong;
  return status.code() == StatusCode::kPeerLost ? kTold : kWrongError;
}

class PairKill : public ::testing::Test {
 protected:
  PairKill()
      : done_(static_cast<std::atomic<uint64_t>*>(mmap(nullptr, sizeof(std::atomic<uint64_t>),
                                                       PROT_READ | PROT_WRITE,
                                                       MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~PairKill() override { munmap(done_, sizeof *done_); }

  template <class Body>
  pid_t start(Body&& body) {
    const pid_t child = testing::fork_child();
    if (child != 0) started_.insert(child);
    if (child != 0) return child;
    const auto store = open_store("file://" + folder_.path(), system_runtime(),
                                  {.operation_timeout = std::chrono::minutes(1)});
    _exit(store.ok() ? body(**store) : kNotConnected);
  }

  World world(int rank, int ranks) const {
    return {generation_, rank, testing::members_named(ranks)};
  }

  // A kill at a random moment after `operations` have been done in this generation.
  void kill_after(uint64_t operations, pid_t victim) {
    const Time patience = deadline_in(60s);
    while (done_->load() < operations && std::chrono::steady_clock::now() < patience) {
      std::this_thread::sleep_for(100us);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 2'000));
    kill(victim, SIGKILL);
  }

  const TempFolder folder_;
  std::atomic<uint64_t>* const done_;  // over all processes
  std::mt19937 random_{std::random_device{}()};
  uint64_t generation_ = 0;
  std::set<int64_t> started_;  // processes, which leave no segment behind
};

// Messages of many sizes, first to one side, then to the other.
int exchange(Store& store, const World& world, Backend backend, std::atomic<uint64_t>& done) {
  auto communicator = connect_communicator(world, store, deadline_in(60s), {.backend = backend});
  if (!communicator.ok()) return kNotConnected;
  std::minstd_rand random(static_cast<unsigned>(world.generation));
  Status status;
  for (uint64_t message = 0; status.ok(); ++message) {
    const uint64_t count = random() % 4 == 0 ? random() % kElementsMax : random() % 100;
    std::vector<int64_t> values(count, -1);
    const Buffer buffer = {values.data(), count, DType::kInt64};
    const bool sends = static_cast<int>(message % 2) == world.rank;
    const auto value = [&](uint64_t i) { return static_cast<int64_t>(message * 31 + i); };
    for (uint64_t i = 0; sends && i < count; ++i) values[i] = value(i);
    status = sends ? (*communicator)->send(buffer, 1 - world.rank, deadline_in(60s))
                   : (*communicator)->recv(buffer, 1 - world.rank, deadline_in(60s));
    for (uint64_t i = 0; status.ok() && i < count; ++i) {
      if (values[i] != value(i)) return kWrong;
    }
    done.fetch_add(1);
  }
  return outcome_of(status);
}

TEST_F(PairKill, WhoLivesIsToldAndNoMessageIsWrong) {
  for (generation_ = 1; generation_ <= 2 * kKills; ++generation_) {
    const Backend backend = generation_ % 2 == 0 ? Backend::kShm : Backend::kTcp;
    done_->store(0);
    pid_t ranks[2];
    for (int rank = 0; rank < 2; ++rank) {
      ranks[rank] =
          start([&](Store& store) { return exchange(store, world(rank, 2), backend, *done_); });
    }
    const size_t victim = random_() % 2;
    kill_after(20, ranks[victim]);
    EXPECT_EQ(exit_code(ranks[1 - victim]), kTold) << "generation " << generation_;
    EXPECT_EQ(exit_code(ranks[victim]), -SIGKILL) << "generation " << generation_;
  }
}

constexpr uint64_t kElements = 10'007;
constexpr int kMembers = 3;

// Sum s is of kElements values 6 * ((s + i) % 1000).
int add_up(Store& store, const World& world, std::atomic<uint64_t>& done) {
  auto communicator = connect_communicator(world, store, deadline_in(60s));
  if (!communicator.ok()) return kNotConnected;
  Status status = (*communicator)->open_to_subscribers(store, uint64_t{1} << 20, deadline_in(60s));
  for (uint64_t sum = 0; status.ok(); ++sum) {
    std::vector<float> values(kElements);
    for (uint64_t i = 0; i < kElements; ++i) {
      values[i] = static_cast<float>((sum + i) % 1000 * static_cast<uint64_t>(world.rank + 1));
    }
    status =
        (*communicator)->all_reduce({values.data(), kElements}, ReduceOp::kSum, deadline_in(60s));
    done.fetch_add(1);
  }
  return outcome_of(status);
}

// Until the world has ended, or who had it is gone.
int listen(Store& store, const World& world, std::atomic<uint64_t>& done,
           std::atomic<uint64_t>& heard) {
  while (true) {
    const auto listener = AllReduceSubscriber::attach(world, store, deadline_in(15s));
    if (!listener.ok()) {
      // kTimeout: it was late, and those who lived have closed in order.
      const StatusCode code = listener.status().code();
      return code == StatusCode::kUnavailable || code == StatusCode::kTimeout ? kTold : kWrongError;
    }
    Status status;
    while (status.ok()) {
      std::vector<float> values(kElements);
      const Result<uint64_t> sum = (*listener)->next({values.data(), kElements}, deadline_in(60s));
      status = sum.status();
      for (uint64_t i = 0; sum.ok() && i < kElements; ++i) {
        if (values[i] != static_cast<float>((*sum + i) % 1000 * 6)) return kWrong;
      }
      done.fetch_add(1);
      if (sum.ok()) heard.fetch_add(1);
    }
    if (status.code() != StatusCode::kExhausted) return outcome_of(status);
  }
}

TEST_F(PairKill, MembersGoOnWithoutAListenerAndItIsToldOfThem) {
  auto& heard = testing::make_shared_board<std::atomic<uint64_t>>();
  for (generation_ = 1; generation_ <= kKills; ++generation_) {
    done_->store(0);
    std::vector<pid_t> processes;
    for (int rank = 0; rank < kMembers; ++rank) {
      processes.push_back(
          start([&](Store& store) { return add_up(store, world(rank, kMembers), *done_); }));
    }
    processes.push_back(
        start([&](Store& store) { return listen(store, world(0, kMembers), *done_, heard); }));
    const size_t first = random_() % processes.size();
    // Each generation is heard once at least, however late the listener starts.
    const Time patience = deadline_in(60s);
    while (heard <= generation_ && std::chrono::steady_clock::now() < patience) {
      std::this_thread::sleep_for(100us);
    }
    kill_after(50, processes[first]);
    const bool was_listener = first == kMembers;
    const size_t second = was_listener ? random_() % kMembers : first;
    // They go on without it.
    if (was_listener) kill_after(done_->load() + 50, processes[second]);
    for (size_t i = 0; i < processes.size(); ++i) {
      const bool killed = i == first || i == second;
      EXPECT_EQ(exit_code(processes[i]), killed ? -SIGKILL : int{kTold})
          << "process " << i << ", generation " << generation_;
    }
  }
  EXPECT_GT(heard, kKills) << "sums, of all generations";
  for (const SegmentInfo& segment : *list_segments()) {
    EXPECT_FALSE(started_.contains(segment.creator_pid)) << segment.name;
  }
}

}  // namespace
}  // namespace ffdl
