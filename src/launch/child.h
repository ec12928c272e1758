#pragma once

#include <sys/types.h>

#include "base/fork_private_fd.h"
#include "ffdl/status.h"
#include "launch/launcher.h"

namespace ffdl::launch {

struct Child {
  pid_t process = 0;
  base::ForkPrivateFd exit;    // readable once the process has ended
  base::ForkPrivateFd out;     // reads its standard output; not valid with a log file
  base::ForkPrivateFd errors;  // reads its standard error; not valid with a log file
};

// Starts a program in a process group of its own. The program is killed when the calling thread
// ends. So that thread must live as long as the child may. Errors: see Launcher::start.
Result<Child> start_child(const WorkerCommand& command);

}  // namespace ffdl::launch
