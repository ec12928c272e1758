#pragma once

#include <functional>
#include <memory>

#include "ffdl/runtime.h"

namespace ffdl::cli {

// From here on SIGINT and SIGTERM wait for a SignalWatch, in this thread and those that it starts.
void block_signals();

// Calls back for each SIGINT and SIGTERM, on a task of its own.
// Threads: one at a time.
class SignalWatch {
 public:
  explicit SignalWatch(std::function<void(int signal)> on_signal);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  int signals_ = -1;
  int end_ = -1;
  std::unique_ptr<Task> task_;
};

}  // namespace ffdl::cli
