#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "ffdl/diagnose.h"
#include "support/start_program.h"

namespace training {

using nlohmann::json;

inline std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

inline bool segment_exists(const std::string& name) {
  const auto segments = ffdl::list_segments().value();
  return std::any_of(segments.begin(), segments.end(),
                     [&](const ffdl::SegmentInfo& segment) { return segment.name == name; });
}

// Calls syscall(), because glibc 2.36 declares its pidfd_open() for C alone.
inline int open_process(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

// One process of an example. Its output is JSON lines.
class Program {
 public:
  // Writes standard error of the process to the file `errors`.
  Program(std::string program, std::vector<std::string> arguments, std::string errors)
      : errors_(std::move(errors)) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    arguments.insert(arguments.begin(), std::move(program));
    const int file = open(errors_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    // Examples would look there for data that the test does not name.
    pid_ = ffdl::testing::start_program(std::move(arguments), ends[1], file,
                                        {"FFDL_DIGITS_FILE", "FFDL_DATA_DIR"});
    close(file);
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
  }
  ~Program() {
    if (pid_ != 0) {
      kill(pid_, SIGKILL);
      wait();
    }
    std::fclose(output_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Returns the next line as JSON; null at the end of the output.
  json next() {
    char* line = nullptr;
    size_t room = 0;
    const ssize_t length = getline(&line, &room, output_);
    json event;
    if (length >= 0) {
      text_ += line;
      event = json::parse(line, nullptr, false);
      EXPECT_TRUE(event.is_object()) << line;
    }
    std::free(line);
    return event;
  }

  // Reads up to the first event of that name. Returns null if there is none.
  json next(const std::string& name) {
    json event = next();
    while (!event.is_null() && event["event"] != name) event = next();
    return event;
  }

  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  pid_t pid() const { return pid_; }
  std::string text() const { return text_; }
  std::string errors() const { return read_file(errors_); }

 private:
  std::string errors_;
  pid_t pid_ = 0;
  std::FILE* output_ = nullptr;
  std::string text_;
};

}  // namespace training
