#include "cli/init_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/resource_limit.h"

namespace ffdl::cli {
namespace {

// Returns the signals of an init: those that it forwards, and SIGCHLD.
sigset_t signals_of_init() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal :
       {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGCHLD}) {
    sigaddset(&set, signal);
  }
  return set;
}

// Returns the exit code of `child`. A signal reaches it also while it is stopped: nothing else in a
// container would continue it.
int serve_as_init(pid_t child, const sigset_t& signals) {
  while (true) {
    int state = 0;
    for (pid_t ended = 0; (ended = ::waitpid(-1, &state, WNOHANG)) > 0;) {
      if (ended == child) return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    }
    const int signal = ::sigwaitinfo(&signals, nullptr);
    if (signal <= 0 || signal == SIGCHLD) continue;
    ::kill(child, signal);
    ::kill(child, SIGCONT);
  }
}

}  // namespace

Result<std::optional<int>> become_init() {
  const sigset_t signals = signals_of_init();
  sigset_t before;
  ::signal(SIGCHLD, SIG_DFL);                       // if ignored, no child could be waited for
  ::pthread_sigmask(SIG_BLOCK, &signals, &before);  // before the fork: none is missed
  const pid_t init = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    const int error = errno;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return base::system_failure("start a process for the job beside process 1", error,
                                "raise the container's limit of processes", StatusCode::kExhausted);
  }
  if (child > 0) return std::optional<int>(serve_as_init(child, signals));
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != init) ::_exit(1);  // the init was killed before prctl() took effect
  // A terminal signals a whole process group. In a group of its own the child receives each signal
  // once, from the init.
  ::setpgid(0, 0);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return std::optional<int>();
}

bool leave_to_child(Status& outcome, int& exit_code) {
  if (::getpid() != 1) return false;
  const auto ended = become_init();
  outcome = ended.status();
  if (ended.ok() && !ended->has_value()) return false;
  if (ended.ok()) exit_code = **ended;
  return true;
}

}  // namespace ffdl::cli
