#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace ffdl {

struct ProgramOutcome {
  int exit_code = -1;
  std::string out;
};

// Runs a command line of the shell to its end. `out` is its standard output.
inline ProgramOutcome run_program(const std::string& command) {
  ProgramOutcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  char text[4096];
  for (size_t n = 0; (n = std::fread(text, 1, sizeof text, pipe)) > 0;) outcome.out.append(text, n);
  outcome.exit_code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

}  // namespace ffdl
