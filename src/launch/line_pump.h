#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/fork_private_fd.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "ffdl/status.h"

namespace ffdl::launch {

// Copies the output of pipes line by line, each line after a prefix of its pipe. A carriage return
// ends a line, too, so that progress bars move. A slow reader of our output delays only the writers
// at the other ends.
// Threads: add from any thread; it has one of its own.
// Blocks: the destructor until the data in the pipes has been copied.
class LinePump {
 public:
  // Errors: kExhausted (the system has no descriptor or thread left).
  static Result<std::unique_ptr<LinePump>> start();
  ~LinePump();

  // Copies from `pipe`, until its end, to the descriptor `to`, which is not closed.
  void add(base::ForkPrivateFd pipe, std::string prefix, int to);

 private:
  struct Source {
    base::ForkPrivateFd pipe;
    std::string prefix;
    int to = -1;
    std::string rest{};           // the beginning of an unfinished line
    bool ends_in_return = false;  // the last copied byte is '\r': a '\n' after it has no prefix
  };

  explicit LinePump(base::ForkPrivateFd wake);
  void run(const StopToken& stop);
  // Returns false at the end of the pipe.
  static bool read_from(Source& source);
  static void pass_lines(Source& source);
  static void finish(Source& source);

  const base::ForkPrivateFd wake_;
  base::Mutex mutex_;
  std::vector<Source> added_ FFDL_GUARDED_BY(mutex_);
  std::vector<Source> sources_;  // used by the thread only
  base::Thread thread_;
};

}  // namespace ffdl::launch
