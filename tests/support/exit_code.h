#pragma once

#include <sys/wait.h>

namespace ffdl::testing {

// Waits for the end of a child. Returns its exit code, or minus the signal that killed it.
inline int exit_code(pid_t child) {
  int outcome = 0;
  waitpid(child, &outcome, 0);
  return WIFEXITED(outcome) ? WEXITSTATUS(outcome) : -WTERMSIG(outcome);
}

}  // namespace ffdl::testing
