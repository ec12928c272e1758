#pragma once

#include <functional>
#include <string>
#include <thread>

#include "ffdl/runtime.h"
#include "ffdl/status.h"

namespace ffdl::base {

// A named thread of the data plane, owned by one object. The kernel shows at most 15 characters of
// the name. The destructor requests a stop and joins. The control plane uses Runtime::spawn.
class Thread {
 public:
  Thread() = default;
  // Errors: kExhausted (the system refuses another thread).
  static Result<Thread> start(const std::string& name, std::function<void(StopToken)> body);
  // Ends the process if the system refuses another thread.
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

// Returns kExhausted. The message names the limit that prevented thread `name`, and how to raise
// it. For callers of Runtime::spawn, which then returns null.
Status no_thread(std::string_view name);

// Lets this thread preempt computing threads as soon as it is woken. For threads that sleep until
// an event and are then waited for. Its share of the processor is unchanged. Linux before 6.12
// ignores the request.
void wake_promptly();

}  // namespace ffdl::base
