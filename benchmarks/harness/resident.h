#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "ffdl/status.h"

namespace ffdl::bench {

// A child process that sleeps in a blocking read between its turns. It reads a line, executes it
// and answers with one line. Used for peers and for our own learners and servers.
// Threads: one.
// Owns: the process; the destructor ends its input and waits for it (and kills it after 10 s).
// Blocks: ask() until the answer or `patience`.
// Errors: kNotFound (no such program), kPeerLost (it ended), kTimeout.
class Resident {
 public:
  static Result<std::unique_ptr<Resident>> start(const std::vector<std::string>& command);
  // Starts this program again with other arguments.
  static Result<std::unique_ptr<Resident>> start_self(const std::vector<std::string>& arguments);
  ~Resident();
  Resident(const Resident&) = delete;
  Resident& operator=(const Resident&) = delete;

  pid_t pid() const { return pid_; }
  // Sends the line. A later ask("") receives the answer.
  Status tell(const std::string& line);
  // Sends the line, unless it is empty, and waits for an answer.
  Result<std::string> ask(const std::string& line,
                          std::chrono::seconds patience = std::chrono::seconds(60));
  // Sends the line and waits for an answer that is a number.
  Result<double> ask_number(const std::string& line);
  void kill_now() const;
  void reap();  // after kill_now(): waits for its end

 private:
  Resident(pid_t pid, int channel) : pid_(pid), channel_(channel) {}
  Status lost(const char* doing) const;
  pid_t pid_;
  int channel_;  // a socket: the child's standard input and output
  std::string unread_;
};

// Writes one line as the answer of such a child.
void answer(const std::string& line);
// Reports that it is ready and sleeps until its input ends, for a child that only has to exist.
void wait_for_the_end();

}  // namespace ffdl::bench
