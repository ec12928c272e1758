#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <fstream>
#include <sstream>
#include <string>

namespace ffdl {

// Returns the process that holds the lock of the folder's server; 0 if there is none.
inline pid_t server_of(const std::string& folder) {
  struct stat file{};
  if (stat((folder + "/server.lock").c_str(), &file) != 0) return 0;
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, mode, access, place;
    pid_t process = 0;
    words >> number >> kind >> mode >> access >> process >> place;
    if (kind == "FLOCK" && place.ends_with(":" + std::to_string(file.st_ino))) return process;
  }
  return 0;
}

}  // namespace ffdl
