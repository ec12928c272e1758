#include "shm/liveness.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/segment.h"
#include "support/fork_child.h"
#include "support/segment_name.h"
#include "support/status_matchers.h"
#include "support/stop_process.h"

namespace ffdl::shm {
namespace {

Segment make_segment() {
  auto made =
      Segment::create({.kind = SegmentKind::kParameterServer, .layout_version = 1, .bytes = 4096});
  EXPECT_OK(made);
  return std::move(made).value();
}

// Starts a child that takes a role and waits to be killed. Returns once the child holds the lock.
// `fd` is a plain descriptor of the segment: a forked child keeps it, other than the segment's own.
pid_t start_holder(int fd, int role) {
  int ready[2];
  EXPECT_EQ(pipe(ready), 0);
  const pid_t child = testing::fork_child();
  if (child == 0) {
    const Result<RoleLock> lock = RoleLock::acquire(fd, role);
    const char answer = lock.ok() ? 'y' : 'n';
    if (write(ready[1], &answer, 1) != 1) _exit(1);
    while (true) pause();
  }
  char answer = 0;
  EXPECT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  close(ready[0]);
  close(ready[1]);
  return child;
}

void end(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(RoleLock, IsHeldByOneAtATime) {
  const Segment segment = make_segment();
  ASSERT_OK_AND_ASSIGN(RoleLock first, RoleLock::acquire(segment.fd(), learner_role(3)));
  EXPECT_TRUE(role_is_held(segment.fd(), learner_role(3)));
  EXPECT_FALSE(role_is_held(segment.fd(), learner_role(4)));
  EXPECT_FALSE(role_is_held(segment.fd(), kOwnerRole));
  EXPECT_TRUE(role_is_held(segment.fd(), kAnyRole));
  EXPECT_FAILS(RoleLock::acquire(segment.fd(), learner_role(3)), StatusCode::kConflict, "living");
  EXPECT_FAILS(RoleLock::acquire(segment.fd(), kAnyRole), StatusCode::kConflict, "living");
  EXPECT_OK(RoleLock::acquire(segment.fd(), learner_role(4)));
  first.release();
  EXPECT_FALSE(role_is_held(segment.fd(), kAnyRole));
}

TEST(RoleLock, HoldsSeveralRolesAndDropsEach) {
  const Segment segment = make_segment();
  ASSERT_OK_AND_ASSIGN(RoleLock first, RoleLock::acquire(segment.fd(), learner_role(0)));
  ASSERT_OK_AND_ASSIGN(RoleLock second, RoleLock::acquire(segment.fd(), learner_role(1)));
  const int64_t last = partition_role(0xffffffffU);
  for (const int64_t role : {partition_role(0), partition_role(1), partition_role(2), last}) {
    ASSERT_OK_AND_ASSIGN(const bool is_held, first.add(role));
    EXPECT_TRUE(is_held);
  }
  ASSERT_OK_AND_ASSIGN(const bool again, first.add(partition_role(1)));
  EXPECT_TRUE(again);
  ASSERT_OK_AND_ASSIGN(const bool by_two, second.add(partition_role(1)));
  EXPECT_FALSE(by_two);
  first.drop(partition_role(1));
  EXPECT_FALSE(role_is_held(segment.fd(), partition_role(1)));
  for (const int64_t role :
       {int64_t{learner_role(0)}, partition_role(0), partition_role(2), last}) {
    EXPECT_TRUE(role_is_held(segment.fd(), role));
  }
  ASSERT_OK_AND_ASSIGN(const bool now, second.add(partition_role(1)));
  EXPECT_TRUE(now);
  first.release();
  for (const int64_t role :
       {int64_t{learner_role(0)}, partition_role(0), partition_role(2), last}) {
    EXPECT_FALSE(role_is_held(segment.fd(), role));
  }
  EXPECT_TRUE(role_is_held(segment.fd(), partition_role(1)));
}

TEST(RoleLock, IsFreeOnceItsHolderIsKilled) {
  const Segment segment = make_segment();
  const pid_t child = start_holder(dup(segment.fd()), kOwnerRole);
  EXPECT_TRUE(role_is_held(segment.fd(), kOwnerRole));
  testing::stop_process(child);
  EXPECT_TRUE(role_is_held(segment.fd(), kOwnerRole));  // a stopped process is not dead
  end(child);
  EXPECT_FALSE(role_is_held(segment.fd(), kOwnerRole));
}

// The lock works across pid namespaces, where a pid means nothing.
TEST(RoleLock, IsSeenAcrossPidNamespaces) {
  const Segment segment = make_segment();
  const int fd = dup(segment.fd());
  const pid_t helper = testing::fork_child();
  if (helper == 0) {
    if (unshare(CLONE_NEWPID) != 0) _exit(77);
    const pid_t child = start_holder(fd, kOwnerRole);  // the first process of the new namespace
    const bool seen = role_is_held(fd, kOwnerRole);
    end(child);
    _exit(seen && !role_is_held(fd, kOwnerRole) ? 0 : 1);
  }
  int status = 0;
  waitpid(helper, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    GTEST_SKIP() << "a new pid namespace needs root";
  }
  EXPECT_EQ(status, 0);
}

TEST(RoleLock, IsNotInheritedByAForkedChild) {
  const Segment segment = make_segment();
  ASSERT_OK_AND_ASSIGN(RoleLock lock, RoleLock::acquire(segment.fd(), kOwnerRole));
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t child = testing::fork_child();
  if (child == 0) {
    const char answer = lock.held() ? 'y' : 'n';
    if (write(told[1], &answer, 1) != 1) _exit(1);
    while (true) pause();
  }
  char answer = 0;
  ASSERT_EQ(read(told[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'n');
  EXPECT_TRUE(lock.held());
  lock.release();
  EXPECT_FALSE(role_is_held(segment.fd(), kOwnerRole));  // although the child lives
  end(child);
}

}  // namespace
}  // namespace ffdl::shm
