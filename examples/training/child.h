#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "ffdl/status.h"

namespace training {

// A file descriptor that is closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();
  int number() const { return number_; }

 private:
  int number_;
};

// How a process ended.
struct ExitStatus {
  int code = 0;    // of exit(), when no signal ended it
  int signal = 0;  // 0: none
  std::string to_string() const;
};

// This program, started once more in another role; its standard output comes back through a pipe.
// Threads: one at a time; start() from the thread whose end shall end the child.
// Owns: the process: the destructor kills and reaps what still runs.
class Child {
 public:
  static ffdl::Result<Child> start(const std::vector<std::string>& arguments);
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();

  pid_t pid() const { return pid_; }
  int exit_descriptor() const { return exit_.number(); }      // readable once the process ended
  int output_descriptor() const { return output_.number(); }  // readable when it wrote something

  void signal(int number) const;

  // The whole lines written since the last call. Blocks: never.
  std::vector<std::string> take_lines();

  // Waits for the end of the process. Blocks: until then; not once exit_descriptor() is readable.
  ExitStatus reap();

 private:
  Child(pid_t pid, Descriptor exit, Descriptor output);

  pid_t pid_;  // 0 once reaped
  Descriptor exit_;
  Descriptor output_;
  std::string unfinished_line_;
};

// For the child: asks the kernel to send `signal` to this process when its parent ends, or sends it
// at once if that has happened already.
void follow_parent(pid_t parent, int signal);

}  // namespace training
