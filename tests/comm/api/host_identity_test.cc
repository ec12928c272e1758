#include "comm/api/host_identity.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/fork_child.h"
#include "support/private_shm.h"
#include "support/status_matchers.h"
#include "support/user_namespace.h"

namespace ffdl::comm {
namespace {

TEST(HostIdentity, IsTheSameTwice) {
  ASSERT_OK_AND_ASSIGN(const HostIdentity one, host_identity());
  ASSERT_OK_AND_ASSIGN(const HostIdentity other, host_identity());
  EXPECT_EQ(one.memory, other.memory);
  EXPECT_EQ(one.network, other.network);
  EXPECT_EQ(one.processes, other.processes);
  EXPECT_EQ(one.memory.find(' '), std::string::npos);
  EXPECT_EQ(one.network.find(' '), std::string::npos);
  EXPECT_EQ(one.processes.find(' '), std::string::npos);
}

// Returns bits of the parts that differ after the change: 1 for memory, 2 for the network, 4 for
// processes.
int changes_after(bool (*change)()) {
  const auto before = host_identity();
  const pid_t child = testing::fork_child();
  if (child == 0) {
    if (!change()) _exit(99);
    const auto after = host_identity();
    if (!before.ok() || !after.ok()) _exit(98);
    _exit((after->memory != before->memory ? 1 : 0) + (after->network != before->network ? 2 : 0) +
          (after->processes != before->processes ? 4 : 0));
  }
  int outcome = 0;
  waitpid(child, &outcome, 0);
  return WEXITSTATUS(outcome);
}

TEST(HostIdentity, AnotherSharedMemoryOrNetworkIsAnotherHost) {
  const int memory = changes_after([] { return testing::mount_private_shm("size=1m"); });
  const int network = changes_after([] { return unshare(CLONE_NEWNET) == 0; });
  if (memory == 99 || network == 99) GTEST_SKIP() << "namespaces need root";
  EXPECT_EQ(memory, 1);
  EXPECT_EQ(network, 2);
}

TEST(HostIdentity, AnotherUserNamespaceHasOtherProcesses) {
  const int users = changes_after([] { return testing::enter_user_namespace(geteuid()); });
  if (users == 99) GTEST_SKIP() << "user namespaces are not allowed";
  EXPECT_EQ(users, 4);
}

TEST(HostIdentity, WhoLetsNobodyOpenWhatItHasOpenIsAlone) {
  EXPECT_EQ(changes_after([] { return true; }), 0);
  EXPECT_EQ(changes_after([] { return prctl(PR_SET_DUMPABLE, 0) == 0; }), 4);
}

}  // namespace
}  // namespace ffdl::comm
