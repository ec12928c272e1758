#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <string>

#include "ffdl/runtime.h"

namespace ffdl {

// A command line of the shell that runs beside the test, in its place: a signal reaches the program
// itself. What it writes goes to a file. Killed at the end, if it runs then.
class StartedProgram {
 public:
  StartedProgram(const std::string& command, std::string output)
      : output_(std::move(output)), process_(::fork()) {
    if (process_ != 0) return;
    // Where a shell runs the tests in its background, they ignore these.
    for (const int number : {SIGHUP, SIGINT, SIGQUIT}) ::signal(number, SIG_DFL);
    const int file = ::open(output_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::execl("/bin/sh", "sh", "-c", ("exec " + command).c_str(), nullptr);
    ::_exit(127);
  }
  ~StartedProgram() {
    if (process_ <= 0) return;
    signal(SIGKILL);
    wait();
  }
  StartedProgram(const StartedProgram&) = delete;
  StartedProgram& operator=(const StartedProgram&) = delete;

  void signal(int number) const { ::kill(process_, number); }
  // Its exit code, or minus the signal that killed it.
  int wait() {
    int state = 0;
    ::waitpid(process_, &state, 0);
    process_ = -1;
    return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
  }
  std::string output() const {
    std::ifstream file(output_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool wrote(const std::string& text) const { return output().find(text) != std::string::npos; }

 private:
  const std::string output_;
  pid_t process_;
};

// Whether a condition becomes true before a busy machine's patience is over.
inline bool comes_true(const std::function<bool()>& condition) {
  const Time patience = deadline_in(std::chrono::seconds(60));
  const auto never = system_runtime().make_event();
  while (!condition()) {
    if (deadline_in({}) > patience) return false;
    never->wait_until(deadline_in(std::chrono::milliseconds(5)));
  }
  return true;
}

}  // namespace ffdl
