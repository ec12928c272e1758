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
#include "support/start_program.h"

namespace ffdl {

// A command line of the shell that runs beside the test. Its program replaces the shell, so a
// signal reaches it directly. Its output goes to a file. The destructor kills it if it still runs,
// and it ends with the thread that made it.
class StartedProgram {
 public:
  // In a process group of its own, the program is stopped by SIGTSTP, as a job of a shell.
  enum class Group { kOfTheTest, kOwn };

  StartedProgram(const std::string& command, std::string output, Group group = Group::kOfTheTest)
      : output_(std::move(output)) {
    const int file = ::open(output_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    process_ = testing::start_program({"/bin/sh", "-c", "exec " + command}, file, file, {},
                                      group == Group::kOwn);
    ::close(file);
  }
  ~StartedProgram() {
    if (process_ <= 0) return;
    signal(SIGKILL);
    wait();
  }
  StartedProgram(const StartedProgram&) = delete;
  StartedProgram& operator=(const StartedProgram&) = delete;

  pid_t process() const { return process_; }
  void signal(int number) const { ::kill(process_, number); }
  // Waits for the end. Returns the exit code, or minus the signal that killed it.
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
  pid_t process_ = -1;
};

// Returns true if the condition becomes true within the time of a busy machine.
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
