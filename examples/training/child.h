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

// The result of a process.
struct ExitStatus {
  int code = 0;    // of exit(), when no signal ended it
  int signal = 0;  // 0: none
  std::string to_string() const;
};

// A process of this program in another role; its standard output is read through a pipe.
// Threads: one at a time; start() from the thread whose end shall end the child.
// Owns: the process: the destructor kills and reaps a child that still runs.
class Child {
 public:
  static ffdl::Result<Child> start(const std::vector<std::string>& arguments);
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();

  pid_t pid() const { return pid_; }
  int exit_descriptor() const { return exit_.number(); }      // readable once the process has ended
  int output_descriptor() const { return output_.number(); }  // readable when there is output

  void signal(int number) const;

  // Returns the whole lines written since the last call. Blocks: never.
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

// Makes the kernel send `signal` to this process when its parent ends. Sends it at once if the
// parent has ended already. Called in the child.
void follow_parent(pid_t parent, int signal);

}  // namespace training
