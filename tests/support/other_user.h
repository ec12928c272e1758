#pragma once

#include <grp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace ffdl::testing {

// A user that owns nothing: "nobody" on most systems.
inline constexpr uid_t kOtherUser = 65534;

// Returns false if this process may not change its user; the test is skipped then.
inline bool may_be_another_user() { return geteuid() == 0; }

// Runs `act` in a child that is the other user. Returns the exit code of the child. It is the
// result of `act`, 100 if the child could not become that user, or 101 if a signal killed it.
template <class Act>
int as_other_user(Act&& act) {
  const pid_t child = fork();
  if (child == 0) {
    if (setgroups(0, nullptr) != 0 || setresgid(kOtherUser, kOtherUser, kOtherUser) != 0 ||
        setresuid(kOtherUser, kOtherUser, kOtherUser) != 0) {
      _exit(100);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // after the change of user, which would clear it
    _exit(std::forward<Act>(act)());
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 100;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 101;
}

}  // namespace ffdl::testing

#define FFDL_SKIP_UNLESS_OTHER_USER()                                         \
  if (!::ffdl::testing::may_be_another_user()) {                              \
    GTEST_SKIP() << "only root may act as another user, which this test does"; \
  }
