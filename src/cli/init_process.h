#pragma once

#include <optional>

#include "ffdl/status.h"

// Lets the command be process 1 of a container.
namespace ffdl::cli {

// Splits this process, which becomes a minimal init. A new child returns nullopt and does the work.
// The init reaps every orphan that it inherits. It forwards SIGINT, SIGTERM, SIGHUP, SIGQUIT,
// SIGUSR1, SIGUSR2 and SIGCONT to the child, but not SIGTSTP: in a container no shell could
// continue it. When the child has ended, the init returns the child's exit code, or 128 + the
// signal that killed it. A child that is stopped has not ended. The kernel kills the child when the
// init ends.
// Call it before this process has a second thread. Errors: kExhausted.
Result<std::optional<int>> become_init();

// Leaves the work to a child by become_init() if this process is process 1. Process 1 inherits the
// orphans of all processes of its container. Returns true in process 1 once the child has ended, or
// could not be made: `outcome` and `exit_code` report how. Returns false where the work is to do.
bool leave_to_child(Status& outcome, int& exit_code);

}  // namespace ffdl::cli
