#pragma once

#include <functional>
#include <string>
#include <thread>

#include "ffdl/runtime.h"

namespace ffdl::base {

// A thread of the data plane: named (at most 15 characters are shown by the kernel), owned by one
// object, asked to stop and joined by its destructor. The control plane uses Runtime::spawn.
class Thread {
 public:
  Thread() = default;
  Thread(std::string name, std::function<void(StopToken)> body);
  Thread(Thread&&) = default;
  Thread& operator=(Thread&&) = default;

  void request_stop() { thread_.request_stop(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::jthread thread_;
};

// For a thread that sleeps until something comes, and is then waited for: it need not wait for the
// slices of those who compute. Its share of the processor is the same. Linux before 6.12 does not
// know the wish.
void wake_promptly();

}  // namespace ffdl::base
