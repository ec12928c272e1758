#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

#include "ffdl/runtime.h"
#include "ffdl/status.h"
#include "waiting.h"

// Ctrl-C in calls that cannot be waited for in pieces, because a deadline ends more than the call.
namespace ffdl::python {

// Python's signal handlers run on the main thread only.
bool on_main_thread();

// Another address for each thread that lives.
const void* this_thread();

// For CommunicatorOptions::look: runs the handlers of signals that have come. If one raises, the
// exception stays set for raise_if_set(), and the Status is not ok.
Status look_for_signals();

// Raises what look_for_signals() met in a call that has returned.
inline void raise_if_set() {
  if (PyErr_Occurred() != nullptr) throw pybind11::error_already_set();
}

// Calls `call()` without the interpreter lock, for calls that do not look for signals themselves:
// on the main thread it looks while another thread makes the call, which `cancel()` must end.
template <class Call, class Cancel>
Status call_beside_signals(Call&& call, Cancel&& cancel) {
  if (!on_main_thread()) return without_lock(call);
  Status outcome;
  const auto ended = system_runtime().make_event();
  auto task = system_runtime().spawn("call", [&](const StopToken&) {
    outcome = call();
    ended->set();
  });
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
