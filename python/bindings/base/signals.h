#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

#include "bindings/base/waiting.h"
#include "ffdl/runtime.h"
#include "ffdl/status.h"

// Ctrl-C in calls that cannot be split into shorter waits, because a deadline ends more than the
// call.
namespace ffdl::python {

// Returns true on the main thread, the only one on which Python runs signal handlers.
bool on_main_thread();

// Returns an address that is unique among the live threads.
const void* this_thread();

// Serves as CommunicatorOptions::interrupt_check: runs the handlers of pending signals. If one
// raises, the exception stays set for raise_if_set(), and the Status is an error.
Status look_for_signals();

// Throws the exception that look_for_signals() left set during a call that has returned.
inline void raise_if_set() {
  if (PyErr_Occurred() != nullptr) throw pybind11::error_already_set();
}

// Runs `call()` without the interpreter lock, for calls that do not check for signals themselves.
// On the main thread it checks while another thread makes the call, which `cancel()` must end.
template <class Call, class Cancel>
Status call_beside_signals(Call&& call, Cancel&& cancel) {
  if (!on_main_thread()) return without_lock(call);
  Status outcome;
  const auto ended = system_runtime().make_event();
  auto task = system_runtime().spawn("call", [&](const StopToken&) {
    outcome = call();
    ended->set();
  });
  if (!task) {
    return Status(StatusCode::kExhausted,
                  "wait beside signals: the system cannot start another thread; raise 'ulimit -u', "
                  "'ulimit -v' or the container's limit of processes");
  }
  while (!without_lock([&] { return ended->wait_until(deadline_in(kPiece)); })) {
    if (PyErr_CheckSignals() == 0) continue;
    without_lock([&] { cancel(); });
    break;
  }
  without_lock([&] { task.reset(); });
  raise_if_set();
  return outcome;
}

}  // namespace ffdl::python
