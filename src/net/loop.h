#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/thread.h"
#include "ffdl/status.h"
#include "ffdl/types.h"
#include "net/asio.h"

namespace ffdl::net {

// Runs one thread that waits for sockets and timers and calls their handlers. All objects of a loop
// are used on its thread only, or after stop().
// Threads: post from any thread; stop and the destructor from any but its own.
class Loop {
 public:
  // Errors: kExhausted (no descriptor or thread is left).
  static Result<std::unique_ptr<Loop>> start(std::string name);
  ~Loop() { stop(); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void post(std::function<void()> work);
  // Returns when the thread has ended. Posted work that has not run yet never runs.
  void stop();
  asio::io_context& context() { return context_; }

 private:
  Loop() : work_(asio::make_work_guard(context_)) {}

  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  base::Thread thread_;
};

// Calls once, at some time after `at`, unless it is started again or cancelled before.
class Timer {
 public:
  explicit Timer(Loop& loop) : timer_(loop.context()) {}
  ~Timer() { cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  void start(Time at, std::function<void()> call);
  void cancel();

 private:
  asio::steady_timer timer_;
  // Invalidates calls that were pending when the timer was started again. It is shared with such
  // calls, which may come after the timer is destroyed.
  std::shared_ptr<uint64_t> started_ = std::make_shared<uint64_t>(0);
};

}  // namespace ffdl::net
