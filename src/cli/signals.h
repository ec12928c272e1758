#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"

namespace ffdl::cli {

// The interval at which a wait checks its condition and signals.
inline constexpr Duration kInterruptCheckInterval = std::chrono::milliseconds(200);

// Blocks SIGINT and SIGTERM for a SignalWatch, in this thread and those that it starts later.
void block_signals();

// Makes a write above 'ulimit -f' fail without ending this process, whose output may be a file. The
// programs that it starts receive the signal as usual.
void block_file_size_signal();

// Calls back for each SIGINT and SIGTERM, on a task of its own.
// Threads: one at a time.
class SignalWatch {
 public:
  // Errors: kExhausted (the system has no descriptor left).
  static Result<std::unique_ptr<SignalWatch>> start(std::function<void(int signal)> on_signal);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // Replaces the callback by `on_signal`, and returns the former one. Waits for a call that is
  // under way; not to be called within one.
  std::function<void(int signal)> call_instead(std::function<void(int signal)> on_signal);

 private:
  SignalWatch() = default;

  base::Mutex mutex_;  // held during a call
  std::function<void(int signal)> on_signal_ FFDL_GUARDED_BY(mutex_);
  int signals_ = -1;
  int end_ = -1;
  std::unique_ptr<Task> task_;
};

// Returns what a signal does while nothing runs that must end first: it prints the signal and
// `state`, and ends the process with 128 + signal. A call that waits for a store cannot be
// interrupted. `folder`, unless empty, is removed; the rest is left as by a kill.
std::function<void(int signal)> end_at_once(std::string state, std::string folder = "");

// Changes what a signal does while this object lives.
class HandledSignals {
 public:
  HandledSignals(SignalWatch& watch, std::function<void(int signal)> on_signal);
  ~HandledSignals();
  HandledSignals(const HandledSignals&) = delete;
  HandledSignals& operator=(const HandledSignals&) = delete;

 private:
  SignalWatch& watch_;
  std::function<void(int signal)> before_;
};

// Ends this process by `end` when `is_idle` has been true for a moment, after begin(). The moment
// is for a store of another process, which may not answer.
class LastResort {
 public:
  LastResort(std::function<bool()> is_idle, std::function<void(int signal)> end);
  ~LastResort();
  LastResort(const LastResort&) = delete;
  LastResort& operator=(const LastResort&) = delete;

  // Begins to watch, after the first signal. To be called once.
  void begin(int signal);

 private:
  const std::function<bool()> is_idle_;
  const std::function<void(int signal)> end_;
  const std::unique_ptr<Event> over_;
  std::unique_ptr<Task> task_;
};

}  // namespace ffdl::cli
