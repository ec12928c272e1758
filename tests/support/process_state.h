#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace ffdl::testing {

// A process as in /proc/PID/stat.
struct ProcessState {
  char letter = '\0';  // such as 'S', or 'T' if it is stopped; '\0': there is none
  int parent = 0;
};

inline ProcessState process_state(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  ProcessState state;
  const size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos) return state;
  std::istringstream(text.substr(name_end + 2)) >> state.letter >> state.parent;
  return state;
}

// Returns true if the process has not ended. One that is not reaped yet has ended.
inline bool is_running(int process) {
  const char letter = process_state(process).letter;
  return letter != '\0' && letter != 'Z' && letter != 'X';
}

// Returns true if the process is stopped. After vfork() it waits in state 'D' for a child that is
// stopped before exec.
inline bool is_stopped(int process) {
  const char letter = process_state(process).letter;
  return letter == 'T' || letter == 'D';
}

// Returns the children of a process, with those that have ended and are not reaped yet.
inline std::vector<int> children_of(int parent) {
  std::vector<int> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (process_state(std::stoi(name)).parent == parent) children.push_back(std::stoi(name));
  }
  return children;
}

}  // namespace ffdl::testing
