#pragma once

#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <string_view>
#include <vector>

namespace ffdl::testing {

// Starts the program words[0], which is looked for in PATH, with the descriptors `output` and
// `errors`, and the environment except for the variables `without`. It ends with the thread that
// called this. With `has_own_group` it leads a process group. Returns its pid; the program's exit
// code is 127 if it could not be started. Other threads may run: the child takes no lock before
// exec. An allocation there would hang under a sanitizer whose allocator another thread holds at
// the moment of the fork.
inline pid_t start_program(std::vector<std::string> words, int output, int errors,
                           const std::vector<std::string_view>& without = {},
                           bool has_own_group = false) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    bool is_left_out = false;
    for (const std::string_view name : without) {
      is_left_out = is_left_out || text.substr(0, text.find('=')) == name;
    }
    if (!is_left_out) environment.push_back(*variable);
  }
  environment.push_back(nullptr);

  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  if (has_own_group) setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it was killed before prctl() took effect
  // A shell that runs the tests in the background makes them ignore such signals.
  for (const int number : std::array{SIGHUP, SIGINT, SIGQUIT, SIGTSTP}) signal(number, SIG_DFL);
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  execvpe(argv.front(), argv.data(), environment.data());
  _exit(127);
}

}  // namespace ffdl::testing
