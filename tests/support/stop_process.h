#pragma once

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>

namespace ffdl::testing {

// Stops a child and returns once all of its threads stand still, or once it has ended. SIGSTOP
// reaches one thread after the other: another one may still work when kill() has returned. The
// child's end remains to be waited for.
inline void stop_process(pid_t child) {
  kill(child, SIGSTOP);
  siginfo_t seen = {};
  waitid(P_PID, static_cast<id_t>(child), &seen, WSTOPPED | WEXITED | WNOWAIT);
}

}  // namespace ffdl::testing
