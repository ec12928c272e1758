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

// Blocks the signals of a SignalWatch, in this thread and those that it starts later.
void block_signals();

// Makes a write above 'ulimit -f' fail without ending this process, whose output may be a file. The
// programs that it starts receive the signal as usual.
void block_file_size_signal();

// Stops this process until SIGCONT, and returns for how long it stood still. Returns at once if
// SIGCONT has arrived since the last SIGTSTP, or if no shell could continue this process: its group
// is orphaned. The caller has called block_signals().
Duration stand_still();

struct SignalActions {
  std::function<void(int signal)> on_end;                 // SIGINT, SIGTERM, SIGHUP
  std::function<void()> on_stop = [] { stand_still(); };  // SIGTSTP
};

// Calls back for each SIGINT, SIGTERM, SIGHUP and SIGTSTP, on a task of its own. A process that was
// started with SIGHUP or SIGTSTP ignored, as by nohup, continues to ignore that signal.
// Threads: one at a time.
class SignalWatch {
 public:
  // Errors: kExhausted (the system has no descriptor left).
  static Result<std::unique_ptr<SignalWatch>> start(std::function<void(int signal)> on_end);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // Replaces the callbacks, and returns the former ones. Waits for a call that is under way; not to
  // be called within one.
  SignalActions call_instead(SignalActions actions);

 private:
  SignalWatch() = default;
  void handle(int signal);

  base::Mutex mutex_;  // held during a call
  SignalActions actions_ FFDL_GUARDED_BY(mutex_);
  int signals_ = -1;
  int end_ = -1;
  std::unique_ptr<Task> task_;
};

// Returns what a signal does while nothing runs that must end first: it prints the signal and
// `state`, and ends the process with 128 + signal. A call that waits for a store cannot be
// interrupted. `folder`, unless empty, is removed; the rest is left as by a kill.
std::function<void(int signal)> end_at_once(std::string state, std::string folder = "");

// Changes what signals do while this object lives.
class HandledSignals {
 public:
  HandledSignals(SignalWatch& watch, SignalActions actions);
  ~HandledSignals();
  HandledSignals(const HandledSignals&) = delete;
  HandledSignals& operator=(const HandledSignals&) = delete;

 private:
  SignalWatch& watch_;
  SignalActions before_;
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
