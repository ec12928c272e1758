#pragma once

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

namespace ffdl::testing {

// Forks a process that ends with the thread that made it. No process of a test outlives it, even if
// the test is killed.
inline pid_t fork_child() {
  const pid_t child = fork();
  if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  return child;
}

}  // namespace ffdl::testing
