#pragma once

#include <sys/types.h>

#include "base/fork_private_fd.h"
#include "ffdl/launcher.h"
#include "ffdl/status.h"

namespace ffdl::launch {

struct Child {
  pid_t process = 0;
  base::ForkPrivateFd exit;    // readable once it has ended
  base::ForkPrivateFd out;     // what it writes to standard output; not valid with a log file
  base::ForkPrivateFd errors;  // the same of standard error
};

// Starts a program in a process group of its own. It is killed when the calling thread ends, which
// must therefore live as long as the child may. Errors: see Launcher::start.
Result<Child> start_child(const WorkerCommand& command);

}  // namespace ffdl::launch
