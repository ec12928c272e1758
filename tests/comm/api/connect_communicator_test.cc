#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "base/limits.h"
#include "ffdl/comm/communicator.h"
#include "ffdl/diagnose.h"
#include "ffdl/membership.h"
#include "support/exit_code.h"
#include "support/fork_child.h"
#include "support/forwarding_store.h"
#include "support/ranks.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

TEST(ConnectCommunicator, AWorldOfOneNeedsNobody) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  ASSERT_OK_AND_ASSIGN(const auto communicator,
                       connect_communicator({1, 0, {{"only", 1}}}, *store, deadline_in(60s)));
  int64_t value = 42;
  ASSERT_OK(communicator->all_reduce({&value, 1, DType::kInt64}, ReduceOp::kSum, deadline_in(60s)));
  EXPECT_EQ(value, 42);
}

std::ptrdiff_t open_sockets() {
  std::ptrdiff_t sockets = 0;
  std::error_code gone;  // the folder's own descriptor is in the list, and is closed by then
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    sockets += read_symlink(entry.path(), gone).string().starts_with("socket:") ? 1 : 0;
  }
  return sockets;
}

TEST(ConnectCommunicator, AWorldOfOneHostOpensNoPort) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  const std::ptrdiff_t before = open_sockets();
  for (const Backend backend : {Backend::kAuto, Backend::kTcp}) {
    testing::Ranks ranks(2);
    testing::on_threads(2, [&](int rank) {
      const World world = {.generation = 1 + static_cast<uint64_t>(backend),
                           .rank = rank,
                           .members = testing::members_named(2)};
      auto made = connect_communicator(world, *store, deadline_in(60s), {.backend = backend});
      ASSERT_OK(made);
      ranks[static_cast<size_t>(rank)] = std::move(made).value();
    });
    EXPECT_EQ(open_sockets() > before, backend == Backend::kTcp);
  }
}

// A store whose disk stands still when the first record is removed, and is gone afterwards.
class StoreThatLeaves : public testing::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Status end_lease(LeaseId) override {
    const bool was_gone = std::exchange(is_gone_, true);
    if (!was_gone) stand_still_->wait_until(deadline_in(2 * base::kLinkSilenceMax + 500ms));
    return Status(StatusCode::kUnavailable, "gone");
  }

 private:
  const std::unique_ptr<Event> stand_still_ = system_runtime().make_event();
  bool is_gone_ = false;
};

// Members that have met need the store no more, so none waits for another's.
TEST(ConnectCommunicator, AStoreThatIsSlowOrGoneAfterTheMeetingDelaysNobody) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  testing::Ranks ranks(2);
  testing::on_threads(2, [&](int rank) {
    StoreThatLeaves leaves(*store);
    auto made = connect_communicator({1, rank, testing::members_named(2)},
                                     rank == 1 ? leaves : *store, deadline_in(60s),
                                     {.backend = Backend::kTcp});
    ASSERT_OK(made);
    ranks[static_cast<size_t>(rank)] = std::move(made).value();
  });
}

// A store in which this member cannot publish the place of its shared memory.
class StoreWithoutRoom : public testing::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Result<Revision> compare_and_put(std::string_view key, Revision expected, std::string_view value,
                                   LeaseId lease) override {
    if (std::ranges::count(key, '/') == 2) return Status(StatusCode::kExhausted, "no room");
    return ForwardingStore::compare_and_put(key, expected, value, lease);
  }
};

// The others would wait until their deadlines otherwise.
TEST(ConnectCommunicator, TheFailureOfAMemberEndsTheWaitOfTheOthers) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  testing::on_threads(3, [&](int rank) {
    StoreWithoutRoom without_room(*store);
    const auto made = connect_communicator({1, rank, testing::members_named(3)},
                                           rank == 0 ? without_room : *store, kNoDeadline);
    if (rank == 0) {
      EXPECT_FAILS(made, StatusCode::kExhausted, "no room");
    } else {
      EXPECT_FAILS(made, StatusCode::kPeerLost, "rank 0 'm0' failed: no room; form a new world");
    }
  });
}

// Two members of one host that cannot open each other's memory, by what they read in the store.
class StoreOfMembersApart : public testing::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Result<Entry> get(std::string_view key) override {
    Result<Entry> found = ForwardingStore::get(key);
    if (found.ok() && key.ends_with("/host/1")) found->value.insert(found->value.size() - 1, "/x");
    if (found.ok() && key.ends_with("/offer/0")) found->value = "comm-gone";
    return found;
  }
};

TEST(ConnectCommunicator, MembersThatCannotShareMemoryUseTheNetwork) {
  ASSERT_OK_AND_ASSIGN(const auto inner, open_store("mem://", system_runtime()));
  StoreOfMembersApart store(*inner);
  for (const Backend backend : {Backend::kAuto, Backend::kShm}) {
    testing::on_threads(2, [&](int rank) {
      const World world = {.generation = 1 + static_cast<uint64_t>(backend),
                           .rank = rank,
                           .members = testing::members_named(2)};
      const auto made = connect_communicator(world, store, deadline_in(60s), {.backend = backend});
      if (backend == Backend::kShm) {
        EXPECT_FAILS(made, StatusCode::kInvalidArgument, "share no memory");
        return;
      }
      ASSERT_OK(made);
      EXPECT_EQ((*made)->backend(), Backend::kTcp);
      EXPECT_OK((*made)->barrier(deadline_in(60s)));
    });
  }
}

TEST(ConnectCommunicator, NoMemberAndNoSuchSlotIsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  const auto members = testing::members_named(2);
  EXPECT_FAILS(connect_communicator({1, 2, members}, *store, deadline_in(60s)),
               StatusCode::kInvalidArgument, "only members can connect");
  for (const uint64_t slot_bytes : {uint64_t{0}, uint64_t{16385}, uint64_t{1} << 31}) {
    EXPECT_FAILS(
        connect_communicator({1, 0, members}, *store, deadline_in(60s), {.slot_bytes = slot_bytes}),
        StatusCode::kInvalidArgument, "slot_bytes");
  }
  EXPECT_FAILS(connect_communicator({1, 0, members}, *store, deadline_in(60s),
                                    {.gpu_worlds = static_cast<GpuWorlds>(2)}),
               StatusCode::kInvalidArgument, "gpu_worlds 2");
}

// A machine without a GPU or NCCL reports what is missing. With both, a world of one connects.
TEST(ConnectCommunicator, BackendsOfGpusSayWhatIsMissing) {
  for (const Backend backend : {Backend::kNccl, Backend::kDeviceShm}) {
    ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
    const auto communicator =
        connect_communicator({1, 0, {{"only", 1}}}, *store, deadline_in(60s), {.backend = backend});
    EXPECT_TRUE(store->list("comm/")->empty());
    if (communicator.ok()) {
      EXPECT_EQ((*communicator)->backend(), backend);
      EXPECT_OK((*communicator)->barrier(deadline_in(60s)));
    } else {
      EXPECT_FAILS(communicator, StatusCode::kUnimplemented, "; ");
    }
  }
}

// The members of all jobs have the same ids, incarnations and generations.
TEST(ConnectCommunicator, JobsThatShareAStoreDoNotMeet) {
  constexpr int kJobs = 8;
  constexpr int kRanks = 2;
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  for (const Backend backend : {Backend::kShm, Backend::kTcp, Backend::kGloo}) {
    for (uint64_t generation = 1; generation <= 10; ++generation) {
      testing::on_threads(kJobs * kRanks, [&](int thread) {
        const int job = thread / kRanks;
        const auto made = connect_communicator({.generation = generation,
                                                .rank = thread % kRanks,
                                                .members = testing::members_named(kRanks),
                                                .job = fmt::format("job{}", job)},
                                               *store, deadline_in(60s), {.backend = backend});
        if (made.status().code() == StatusCode::kUnimplemented) return;
        ASSERT_OK(made);
        EXPECT_EQ((*made)->world().job, fmt::format("job{}", job));
        int64_t value = job;
        ASSERT_OK(
            (*made)->all_reduce({&value, 1, DType::kInt64}, ReduceOp::kSum, deadline_in(60s)));
        EXPECT_EQ(value, kRanks * job);
      });
      ASSERT_FALSE(HasFailure());
    }
  }
  ASSERT_OK_AND_ASSIGN(const auto left, store->list(""));
  EXPECT_TRUE(left.empty());
}

// Starts eight jobs of two workers at once on one store, as their memberships form their worlds.
// The workers have the same ids in all jobs. No worker meets a duplicate of its rank, and none is
// lost.
void begin_jobs_at_once(int rounds) {
  constexpr int kJobs = 8;
  constexpr int kWorkers = 2;
  for (int round = 0; round < rounds && !::testing::Test::HasFailure(); ++round) {
    ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
    testing::on_threads(kJobs * kWorkers, [&](int thread) {
      const int job = thread / kWorkers;
      MembershipOptions options;
      options.job = fmt::format("job{}", job);
      options.min_workers = kWorkers;
      options.lease = 10s;
      options.gather = 1ms;
      const Member self = {fmt::format("worker-{}", thread % kWorkers), 0};
      auto joined = Membership::join(*store, system_runtime(), self, options);
      ASSERT_OK(joined);
      ASSERT_OK_AND_ASSIGN(const World world, (*joined)->wait_world_after(0, deadline_in(60s)));
      EXPECT_EQ(world.job, options.job);
      const auto made = connect_communicator(world, *store, deadline_in(60s));
      ASSERT_OK(made);
      int64_t value = job;
      ASSERT_OK((*made)->all_reduce({&value, 1, DType::kInt64}, ReduceOp::kSum, deadline_in(60s)));
      EXPECT_EQ(value, kWorkers * job);
      // No member may end before this barrier, since that would be a loss in this world.
      EXPECT_OK((*made)->barrier(deadline_in(60s)));
    });
  }
}

TEST(ConnectCommunicator, JobsThatBeginAtOnceFormTheirOwnWorlds) { begin_jobs_at_once(10); }

TEST(ConnectCommunicatorSlow, JobsThatBeginAtOnceFormTheirOwnWorlds) { begin_jobs_at_once(100); }

TEST(ConnectCommunicator, AJobWhoseNameIsNoPartOfAKeyIsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  for (const std::string job : {"a/b", "a b", "\x1b[2J"}) {
    const World world = {.generation = 1, .members = testing::members_named(1), .job = job};
    EXPECT_FAILS(connect_communicator(world, *store, deadline_in(60s)),
                 StatusCode::kInvalidArgument, "is not a name");
  }
}

// The members compare their first records, so none of them waits for a deadline.
TEST(ConnectCommunicator, MembersThatWantDifferentBackendsAreAllToldSo) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  testing::on_threads(2, [&](int rank) {
    EXPECT_FAILS(
        connect_communicator({1, rank, testing::members_named(2)}, *store, deadline_in(60s),
                             {.backend = rank == 0 ? Backend::kShm : Backend::kGloo}),
        StatusCode::kInvalidArgument, "rank 0 'm0' wants backend shm, rank 1 'm1' wants gloo");
  });
}

TEST(ConnectCommunicator, TheSameRankOfTheSameGenerationTwiceIsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  const auto members = testing::members_named(2);
  std::atomic<bool> is_refused = false;
  std::thread first([&] {
    const CommunicatorOptions options{.interrupt_check = [&]() -> Status {
      return is_refused ? Status(StatusCode::kCancelled, "seen enough") : Status();
    }};
    EXPECT_FAILS(connect_communicator({1, 0, members}, *store, kNoDeadline, options),
                 StatusCode::kCancelled, "seen enough");
  });
  EXPECT_TRUE(comes_true([&] { return !store->list("comm/")->empty(); }));
  EXPECT_FAILS(connect_communicator({1, 0, members}, *store, deadline_in(60s)),
               StatusCode::kWorldChanged, "another process has begun it");
  is_refused = true;
  first.join();
}

TEST(ConnectCommunicator, ARankThatDoesNotComeIsNamedAtTheDeadline) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  EXPECT_FAILS(connect_communicator({1, 0, testing::members_named(2)}, *store, deadline_in(500ms)),
               StatusCode::kTimeout, "rank 1 'm1' has not arrived");
}

TEST(ConnectCommunicator, NothingIsLeftInTheStoreAndTheSameWorldCanConnectAgain) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  for (const Backend backend :
       {Backend::kAuto, Backend::kTcp, Backend::kGloo, Backend::kHierarchical}) {
    testing::on_threads(3, [&](int rank) {
      for (int again = 0; again < 3; ++again) {
        const auto made = connect_communicator({1, rank, testing::members_named(3)}, *store,
                                               deadline_in(60s), {.backend = backend});
        if (made.status().code() == StatusCode::kUnimplemented) return;
        ASSERT_OK(made);
        ASSERT_OK((*made)->barrier(deadline_in(60s)));
      }
    });
    EXPECT_TRUE(store->list("comm/")->empty());
  }
}

// The segment has a name until both ranks have joined.
TEST(ConnectCommunicator, ARankThatLetsNobodyOpenWhatItHasOpenMeetsTheOthersToo) {
  const TempFolder folder;
  const auto meet = [&](int rank) {
    const auto store = open_store("file://" + folder.path(), system_runtime());
    if (!store.ok()) return store.status();
    const auto made = connect_communicator({1, rank, testing::members_named(2)}, **store,
                                           deadline_in(60s), {.backend = Backend::kShm});
    return made.ok() ? (*made)->barrier(deadline_in(60s)) : made.status();
  };
  const pid_t closed = testing::fork_child();
  if (closed == 0) _exit(prctl(PR_SET_DUMPABLE, 0) == 0 && meet(0).ok() ? 0 : 1);
  EXPECT_OK(meet(1));
  EXPECT_EQ(testing::exit_code(closed), 0);
  for (const SegmentInfo& segment : *list_segments()) EXPECT_NE(segment.creator_pid, closed);
}

TEST(ConnectCommunicator, ALookEndsTheWaitForTheOthers) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  for (const int rank : {0, 1}) {
    int looks = 0;
    const CommunicatorOptions options{.interrupt_check = [&]() -> Status {
      return ++looks < 3 ? Status() : Status(StatusCode::kCancelled, "seen enough");
    }};
    const World world{5, rank, testing::members_named(2)};
    EXPECT_FAILS(connect_communicator(world, *store, kNoDeadline, options), StatusCode::kCancelled,
                 "seen enough");
    EXPECT_EQ(looks, 3);
  }
  EXPECT_EQ(store->list("")->size(), 0U);
}

}  // namespace
}  // namespace ffdl
