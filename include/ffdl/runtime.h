#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "ffdl/export.h"
#include "ffdl/types.h"

namespace ffdl {

using StopToken = std::stop_token;
using StopSource = std::stop_source;

// A flag that a thread can wait for. It stays set until reset().
// Threads: all methods from any thread.
class FFDL_API Event {
 public:
  virtual ~Event() = default;
  virtual void set() = 0;
  virtual void reset() = 0;
  // Returns true when the event is set, false at `deadline`. Blocks: at most until `deadline`.
  virtual bool wait_until(Time deadline) = 0;
};

// A thread of the control plane. The destructor requests the thread to stop and joins it.
// Threads: request_stop from any thread. Blocks: the destructor, until the body returns.
class FFDL_API Task {
 public:
  virtual ~Task() = default;
  virtual void request_stop() = 0;
};

// The sources of nondeterminism in the control plane, besides Store and Communicator: time,
// randomness, waiting, threads. A simulation implements its own Runtime.
// Threads: all methods from any thread.
// Owns: nothing; Events and Tasks must be destroyed before their Runtime.
// Errors: spawn() returns null if no thread can start.
class FFDL_API Runtime {
 public:
  virtual ~Runtime() = default;
  virtual Time now() = 0;
  // Returns the time of a clock that also counts how long this machine was suspended; now() does
  // not. The two have no common origin. Default: now().
  virtual Time boottime() { return now(); }
  // Returns a mark of this process for has_ended() in another process. Default: empty, none.
  virtual std::string process_mark() { return {}; }
  // Returns true if the process with this mark has ended for certain. False: it runs, or it ran on
  // another host or in another namespace, so that this process cannot tell. Default: false.
  virtual bool has_ended(std::string_view /*process_mark*/) { return false; }
  virtual uint64_t random() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  virtual std::unique_ptr<Task> spawn(std::string name, std::function<void(StopToken)> body) = 0;
};

// Returns the runtime of this machine: monotonic clock, the kernel's random numbers, threads.
FFDL_API Runtime& system_runtime();

}  // namespace ffdl
