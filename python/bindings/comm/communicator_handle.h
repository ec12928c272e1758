#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

#include "bindings/base/buffers.h"
#include "bindings/base/signals.h"
#include "bindings/base/waiting.h"
#include "ffdl/comm/communicator.h"

namespace ffdl::python {

// The contents of a Python Communicator. The destructor waits until no operation runs, so it
// releases the interpreter lock.
struct CommunicatorHandle {
  CommunicatorHandle(std::unique_ptr<Communicator> connected, bool looks,
                     int its_device = kDeviceInUse)
      : communicator(std::move(connected)), looks_for_signals(looks), device(its_device) {}
  ~CommunicatorHandle() {
    pybind11::gil_scoped_release others_may_run;
    communicator.reset();
  }
  CommunicatorHandle(const CommunicatorHandle&) = delete;
  CommunicatorHandle& operator=(const CommunicatorHandle&) = delete;

  // Raises an exception if an operation would access the memory of a GPU that is not this
  // communicator's.
  void expect_reach(const Elements& elements) const;

  std::unique_ptr<Communicator> communicator;
  const bool looks_for_signals;  // while it waits: it was given look_for_signals()
  const int device;              // its GPU, as named when it was connected
  const void* runner = nullptr;  // the thread inside an operation that checks for signals
  bool busy = false;             // a thread is inside a call, or an OperationQueue has it
  pybind11::object told{};       // the Store that subscribers read
};

// Runs `call()`, which runs operations of the communicator. Other threads run meanwhile, and Ctrl-C
// aborts it. The caller holds an Exclusive of `busy`.
template <class Call>
Status run_operations(CommunicatorHandle& handle, Call&& call) {
  Status outcome;
  if (handle.looks_for_signals) {
    handle.runner = this_thread();
    outcome = without_lock(call);
    handle.runner = nullptr;
  } else {
    outcome = call_beside_signals(call, [&] { handle.communicator->abort({}); });
  }
  raise_if_set();
  return outcome;
}

}  // namespace ffdl::python
