#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "ffdl/status.h"

namespace ffdl::bench {

// A child process that is parked in a blocking read between its turns: it reads a line, does what
// the line says and answers with one line. Used for peers and for our own learners and servers.
// Threads: one.
// Owns: the process; the destructor ends its input and waits for it (and kills it after 10 s).
// Blocks: ask() until the answer or `patience`.
// Errors: kNotFound (no such program), kPeerLost (it ended), kTimeout.
class Resident {
 public:
  static Result<std::unique_ptr<Resident>> start(const std::vector<std::string>& command);
  // This program again, with other arguments.
  static Result<std::unique_ptr<Resident>> start_self(const std::vector<std::string>& arguments);
  ~Resident();
  Resident(const Resident&) = delete;
  Resident& operator=(const Resident&) = delete;

  pid_t pid() const { return pid_; }
  // Sends the line; the answer is for a later ask("").
  Status tell(const std::string& line);
  // Sends the line (nothing if empty) and waits for an answer.
  Result<std::string> ask(const std::string& line,
                          std::chrono::seconds patience = std::chrono::seconds(60));
  // The same for an answer that is a number.
  Result<double> ask_number(const std::string& line);
  void kill_now() const;
  void reap();  // after kill_now(): waits for its end

 private:
  Resident(pid_t pid, int channel) : pid_(pid), channel_(channel) {}
  Status lost(const char* doing) const;
  pid_t pid_;
  int channel_;  // a socket, the child's standard input and output
  std::string unread_;
};

// What such a child says: one line.
void answer(const std::string& line);
// Says that it is ready, then sleeps until its input ends: for one that only has to be there.
void wait_for_the_end();

}  // namespace ffdl::bench
