#pragma once

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace ffdl::testing {

// Stops a child and returns once all of its threads stand still, or once it has ended. SIGSTOP
// reaches one thread after the other: another one may still work when kill() has returned. The
// child's end remains to be waited for.
inline void stop_process(pid_t child) {
  kill(child, SIGSTOP);
  siginfo_t seen = {};
  int outcome = 0;
  do {
    outcome = waitid(P_PID, static_cast<id_t>(child), &seen, WSTOPPED | WEXITED | WNOWAIT);
  } while (outcome != 0 && errno == EINTR);
  if (outcome != 0) {
    std::perror("stop a process that is no child of this one");
    std::abort();
  }
}

}  // namespace ffdl::testing
