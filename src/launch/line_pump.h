#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/fork_private_fd.h"
#include "base/mutex.h"
#include "base/thread.h"

namespace ffdl::launch {

// Passes what comes out of pipes on, line by line, each line after a prefix of its pipe. A slow
// reader of our output holds up the writers at the other ends, and nobody else.
// Threads: add from any thread; it has one of its own.
// Blocks: the destructor until what stands in the pipes has been passed on.
class LinePump {
 public:
  LinePump();
  ~LinePump();

  // From `pipe`, until its end, to the descriptor `to`, which is not closed.
  void add(base::ForkPrivateFd pipe, std::string prefix, int to);

 private:
  struct Source {
    base::ForkPrivateFd pipe;
    std::string prefix;
    int to = -1;
    std::string rest{};  // of a line that has not ended
  };

  void run(const StopToken& stop);
  // False at the end of the pipe.
  static bool read_from(Source& source);
  static void pass_lines(Source& source);
  static void finish(Source& source);

  const base::ForkPrivateFd wake_;
  base::Mutex mutex_;
  std::vector<Source> added_ FFDL_GUARDED_BY(mutex_);
  std::vector<Source> sources_;  // of the thread
  base::Thread thread_;
};

}  // namespace ffdl::launch
