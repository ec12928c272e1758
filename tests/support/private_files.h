#pragma once

#include <signal.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace ffdl::testing {

// Returns the files and folders there, and the folder itself, that other users may read or write.
inline std::vector<std::string> files_of_others(const std::string& folder) {
  std::vector<std::string> found;
  const auto check = [&](const std::string& path) {
    struct stat info{};
    if (lstat(path.c_str(), &info) == 0 && (info.st_mode & 077) != 0) found.push_back(path);
  };
  check(folder);
  // Below a folder that is private, the modes do not matter; those of keys must be right anyway.
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".pem" || entry.is_directory()) check(entry.path().string());
  }
  return found;
}

// Returns the processes with an argument that begins so.
inline std::vector<pid_t> running_programs(const std::string& begin) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t process = static_cast<pid_t>(std::atol(entry.path().filename().c_str()));
    if (process <= 0) continue;
    std::ifstream file(entry.path() / "cmdline");
    for (std::string word; std::getline(file, word, '\0');) {
      if (word.starts_with(begin)) found.push_back(process);
    }
  }
  return found;
}

}  // namespace ffdl::testing
