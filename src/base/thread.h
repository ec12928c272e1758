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

}  // namespace ffdl::base
