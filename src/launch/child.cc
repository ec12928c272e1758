#include "launch/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/own_files.h"
#include "base/process.h"
#include "base/resource_limit.h"

namespace ffdl::launch {
namespace {

using base::ForkPrivateFd;

// Owns a pipe; exec closes both ends. The child of fork() must not lose its end before that. So
// only the other end is a ForkPrivateFd.
struct Pipe {
  ForkPrivateFd read;
  int write = -1;

  Pipe() = default;
  ~Pipe() { close_write(); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  bool open() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    read = ForkPrivateFd(ends[0]);
    write = ends[1];
    return read.valid();
  }
  void close_write() {
    if (write >= 0) ::close(std::exchange(write, -1));
  }
};

// Holds everything that the child needs, made before the fork: between fork and exec the child may
// not take a lock.
struct Plan {
  std::vector<char*> argv;
  std::vector<char*> environment;
  const char* folder = nullptr;
  int input = -1;
  int output = -1;
  int errors = -1;
  int report = -1;
  pid_t parent = 0;
};

// Returns "NAME=" of a variable.
std::string_view name_of(std::string_view variable) {
  return variable.substr(0, variable.find('=') + 1);
}

std::vector<char*> environment_with(const std::vector<std::string>& added) {
  std::vector<char*> all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    bool replaced = false;
    for (const std::string& other : added) {
      replaced = replaced || name_of(other) == name_of(*variable);
    }
    if (!replaced) all.push_back(*variable);
  }
  for (const std::string& variable : added) all.push_back(const_cast<char*>(variable.c_str()));
  all.push_back(nullptr);
  return all;
}

bool prepare(const Plan& plan) {
  if (::setpgid(0, 0) != 0) return false;
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return false;
  if (::getppid() != plan.parent) ::_exit(1);  // the parent was killed before prctl() took effect
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  if (::sigprocmask(SIG_SETMASK, &none, nullptr) != 0) return false;
  if (plan.folder != nullptr && ::chdir(plan.folder) != 0) return false;
  return ::dup2(plan.input, STDIN_FILENO) >= 0 && ::dup2(plan.output, STDOUT_FILENO) >= 0 &&
         ::dup2(plan.errors, STDERR_FILENO) >= 0;
}

[[noreturn]] void become(const Plan& plan) {
  if (prepare(plan)) ::execvpe(plan.argv.front(), plan.argv.data(), plan.environment.data());
  const int error = errno;
  static_cast<void>(::write(plan.report, &error, sizeof error));
  ::_exit(127);
}

// Returns the error that the child reported before exec; 0: its program runs.
int wait_for_exec(const ForkPrivateFd& report) {
  int error = 0;
  ssize_t count = 0;
  do {
    count = ::read(report.get(), &error, sizeof error);
  } while (count < 0 && errno == EINTR);
  return count == static_cast<ssize_t>(sizeof error) ? error : 0;
}

// Adds the variable that the library in the worker watches (base/launcher_watch.h). A shell around
// the worker does not end with the launcher, nor do the programs that the shell has started.
std::vector<std::string> variables_of(const WorkerCommand& command) {
  std::vector<std::string> variables = command.environment;
  variables.push_back("FFDL_LAUNCHER=" + base::mark_of_this_process());
  return variables;
}

Status failure(const WorkerCommand& command, int error) {
  const bool absent = error == ENOENT || error == ENOTDIR;
  const bool unfit = error == EACCES || error == ENOEXEC || error == E2BIG;
  const bool full = error == EAGAIN;  // fork(): no further process
  const std::string doing = fmt::format("start '{}' as '{}'", command.argv.front(), command.name);
  if (!base::what_to_raise(error).empty()) return base::system_failure(doing, error, "");
  return base::make_error(absent  ? StatusCode::kNotFound
                          : unfit ? StatusCode::kInvalidArgument
                          : full  ? StatusCode::kExhausted
                                  : StatusCode::kUnavailable,
                          "{}: {}; {}", doing, base::errno_text(error),
                          absent  ? "check its name, PATH and the folders named"
                          : unfit ? "check that it is a program"
                          : full  ? "raise the limit of processes ('ulimit -u'), or end others"
                                  : "does its folder exist, and is it readable");
}

}  // namespace

Result<Child> start_child(const WorkerCommand& command) {
  if (command.argv.empty()) {
    return base::invalid_argument("start '{}': there is no program; name one", command.name);
  }
  Pipe out, errors, report;
  const base::OwnFd input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  base::OwnFd log;  // a fork keeps it until exec, as the others
  if (input.get() < 0 || !report.open()) return failure(command, errno);
  if (!command.log_file.empty()) {
    auto opened = base::open_log_file(command.log_file);
    if (!opened.ok()) {
      return std::move(opened).status().with_context(
          fmt::format("start '{}' as '{}'", command.argv.front(), command.name));
    }
    log = std::move(*opened);
  } else if (!out.open() || !errors.open()) {
    return failure(command, errno);
  }
  const std::vector<std::string> variables = variables_of(command);
  Plan plan{.argv = {},
            .environment = environment_with(variables),
            .folder = command.folder.empty() ? nullptr : command.folder.c_str(),
            .input = input.get(),
            .output = log.get() >= 0 ? log.get() : out.write,
            .errors = log.get() >= 0 ? log.get() : errors.write,
            .report = report.write,
            .parent = ::getpid()};
  for (const std::string& word : command.argv) plan.argv.push_back(const_cast<char*>(word.c_str()));
  plan.argv.push_back(nullptr);

  const pid_t process = ::fork();
  if (process < 0) return failure(command, errno);
  if (process == 0) become(plan);
  ::setpgid(process, process);  // in both processes, so that stop() finds the group at once
  report.close_write();
  const int error = wait_for_exec(report.read);
  Child child{process, ForkPrivateFd(static_cast<int>(::syscall(SYS_pidfd_open, process, 0))),
              std::move(out.read), std::move(errors.read)};
  if (error == 0 && child.exit.valid()) return child;
  const int why = error != 0 ? error : EMFILE;
  ::kill(-process, SIGKILL);
  ::kill(process, SIGKILL);
  while (::waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
  }
  return failure(command, why);
}

}  // namespace ffdl::launch
