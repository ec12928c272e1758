#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "ffdl/export.h"
#include "ffdl/types.h"

namespace ffdl {

using StopToken = std::stop_token;
using StopSource = std::stop_source;

// A flag that a thread can wait for. Once set it stays set until reset().
// Threads: all methods from any thread.
class FFDL_API Event {
 public:
  virtual ~Event() = default;
  virtual void set() = 0;
  virtual void reset() = 0;
  // True when set, false when the deadline came first. Blocks: until `deadline`.
  virtual bool wait_until(Time deadline) = 0;
};

// A thread of the control plane. The destructor asks it to stop and joins it.
// Threads: request_stop from any thread. Blocks: the destructor, until the body returns.
class FFDL_API Task {
 public:
  virtual ~Task() = default;
  virtual void request_stop() = 0;
};

// All that is not deterministic in the control plane, besides Store and Communicator: time,
// randomness, waiting, threads. A simulation is another Runtime.
// Threads: all methods from any thread.
// Owns: nothing that outlives it; Events and Tasks must be gone before their Runtime.
class FFDL_API Runtime {
 public:
  virtual ~Runtime() = default;
  virtual Time now() = 0;
  virtual uint64_t random() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  virtual std::unique_ptr<Task> spawn(std::string name, std::function<void(StopToken)> body) = 0;
};

// The real one: the monotonic clock, the kernel's random numbers, threads.
FFDL_API Runtime& system_runtime();

}  // namespace ffdl
