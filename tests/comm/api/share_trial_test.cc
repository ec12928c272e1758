#include "comm/api/share_trial.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "ffdl/diagnose.h"
#include "ffdl/runtime.h"
#include "support/exit_code.h"
#include "support/fork_child.h"
#include "support/forwarding_store.h"
#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"
#include "support/user_namespace.h"

namespace ffdl::comm {
namespace {

using namespace std::chrono_literals;

constexpr int kNotAllowed = 77;

Introduction on_host(const std::string& memory, const std::string& processes,
                     Backend backend = Backend::kAuto) {
  return {.backend = backend, .host = {memory, "boot/net", processes}};
}

// Runs a trial of these members on threads of this process. Returns the hosts that rank 0 gets, and
// checks that all ranks get the same.
std::vector<int> hosts_after(const std::vector<Introduction>& members, Store& store) {
  const auto ranks = static_cast<int>(members.size());
  std::vector<std::vector<int>> hosts(members.size());
  std::vector<std::vector<LeaseId>> leases(members.size());
  testing::on_threads(ranks, [&](int rank) {
    ASSERT_OK_AND_ASSIGN(const ShareTrial trial,
                         try_shared_memory({1, rank, testing::members_named(ranks)}, store,
                                           deadline_in(60s), members));
    hosts[static_cast<size_t>(rank)] = hosts_of(trial.members);
    leases[static_cast<size_t>(rank)] = trial.leases;
  });
  // Not before: a rank reads the others' records.
  for (const std::vector<LeaseId>& own : leases) {
    for (const LeaseId lease : own) EXPECT_OK(store.end_lease(lease));
  }
  for (const std::vector<int>& other : hosts) EXPECT_EQ(other, hosts.front());
  EXPECT_TRUE(store.list("")->empty());
  return hosts.front();
}

// Its members read the name of a segment that they cannot open as the offer of rank 1.
class OfferOfRankOneIsGone : public testing::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Result<Entry> get(std::string_view key) override {
    Result<Entry> found = ForwardingStore::get(key);
    if (found.ok() && key.ends_with("/offer/1")) found->value = "comm-gone";
    return found;
  }
};

// Checks that this process has left no name of a segment.
void expect_no_name_left() {
  for (const SegmentInfo& segment : *list_segments()) {
    EXPECT_FALSE(segment.creator_pid == getpid() && segment.name.starts_with("comm-1-"));
  }
}

TEST(ShareTrial, ProcessesOfOneNamespaceNeedNone) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  const std::vector<Introduction> members = {on_host("a", "1"), on_host("b", "2"),
                                             on_host("a", "1")};
  // One member alone would wait for the others.
  ASSERT_OK_AND_ASSIGN(const ShareTrial trial,
                       try_shared_memory({1, 0, testing::members_named(3)}, *store, kNoDeadline,
                                         members));
  EXPECT_EQ(hosts_of(trial.members), (std::vector<int>{0, 1, 0}));
  EXPECT_TRUE(trial.leases.empty());
}

TEST(ShareTrial, BackEndsOfTheNetworkNeedNone) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  for (const Backend backend : {Backend::kTcp, Backend::kGloo}) {
    const std::vector<Introduction> members = {on_host("a", "1", backend),
                                               on_host("a", "2", backend)};
    EXPECT_OK(
        try_shared_memory({1, 1, testing::members_named(2)}, *store, kNoDeadline, members));
  }
}

TEST(ShareTrial, MembersThatCanOpenTheSegmentStayOneHost) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  EXPECT_EQ(hosts_after({on_host("a", "1"), on_host("b", "2"), on_host("a", "3"),
                         on_host("b", "2"), on_host("a", "1")},
                        *store),
            (std::vector<int>{0, 1, 0, 1, 0}));
  expect_no_name_left();
}

TEST(ShareTrial, MembersOfAHostWhereOneCannotAreHostsApart) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  OfferOfRankOneIsGone of_host_b(*store);
  EXPECT_EQ(hosts_after({on_host("a", "1"), on_host("b", "2"), on_host("a", "3"),
                         on_host("b", "4"), on_host("b", "2")},
                        of_host_b),
            (std::vector<int>{0, 1, 0, 2, 3}));
  expect_no_name_left();
}

// Starts a process in a user namespace of its own that ends with 0 if `member` returns ok.
pid_t in_user_namespace(const std::function<Status()>& member) {
  const pid_t child = testing::fork_child();
  if (child == 0) {
    if (!testing::enter_user_namespace(geteuid())) _exit(kNotAllowed);
    const Status ended = member();
    if (!ended.ok()) std::fprintf(stderr, "%s\n", ended.to_string().c_str());
    _exit(ended.ok() ? 0 : 1);
  }
  return child;
}

// Rootless containers start each rank so.
TEST(ShareTrial, RanksInTheirOwnUserNamespacesShareMemory) {
  const TempFolder folder;
  const auto member = [&](int rank) -> Status {
    FFDL_ASSIGN_OR_RETURN(const auto store,
                          open_store("file://" + folder.path(), system_runtime()));
    FFDL_ASSIGN_OR_RETURN(const auto made,
                          connect_communicator({1, rank, testing::members_named(2)}, *store,
                                               deadline_in(60s), {.backend = Backend::kShm}));
    std::vector<float> values(100'000, static_cast<float>(rank + 1));
    FFDL_RETURN_IF_ERROR(made->all_reduce({values.data(), values.size(), DType::kFloat32},
                                          ReduceOp::kSum, deadline_in(60s)));
    return values.back() == 3 ? Status() : Status(StatusCode::kCorrupt, "a wrong sum");
  };
  const pid_t one = in_user_namespace([&] { return member(0); });
  const pid_t other = in_user_namespace([&] { return member(1); });
  const int ends[] = {testing::exit_code(one), testing::exit_code(other)};
  if (ends[0] == kNotAllowed || ends[1] == kNotAllowed) {
    GTEST_SKIP() << "user namespaces are not allowed";
  }
  EXPECT_EQ(ends[0], 0);
  EXPECT_EQ(ends[1], 0);
  for (const SegmentInfo& segment : *list_segments()) EXPECT_NE(segment.creator_pid, one);
}

}  // namespace
}  // namespace ffdl::comm
