#pragma once

#include <memory>
#include <utility>

#include "bindings/base/raised.h"
#include "bindings/base/waiting.h"
#include "ffdl/data/sample_ledger.h"
#include "ffdl/ps/learner.h"

namespace ffdl::python {

// The contents of a Python Learner.
struct LearnerHandle {
  LearnerHandle(std::unique_ptr<Learner> attached, bool of_device)
      : learner(std::move(attached)), has_device(of_device) {}
  ~LearnerHandle() {
    pybind11::gil_scoped_release others_may_run;
    ledger.reset();
    learner.reset();
  }
  LearnerHandle(const LearnerHandle&) = delete;
  LearnerHandle& operator=(const LearnerHandle&) = delete;

  pybind11::object pushed;  // the gradient between start_push() and finish_push()
  pybind11::object pulled;  // the destination between start_pull() and finish_pull()
  std::unique_ptr<Learner> learner;
  const bool has_device;
  // The ledger of the learner, or null. It calls `on_stable` whenever the learner publishes.
  std::unique_ptr<SampleLedger> ledger;
  pybind11::object on_stable;
  std::shared_ptr<Raised> raised = std::make_shared<Raised>();  // written by that callback
  bool ledger_is_left = false;  // Python dropped the ledger; the next call destroys it
  bool busy = false;
};

// Releases the partitions that the ledger holds. Called by the one thread that may use the learner.
inline void drop_ledger(LearnerHandle& handle) {
  without_lock([&] { handle.ledger.reset(); });
  handle.on_stable = pybind11::object();
  handle.ledger_is_left = false;
}

// Runs `call` and rethrows from it any exception that on_stable raised during the call.
template <class Call>
auto use_exclusively(LearnerHandle& handle, Call&& call) {
  const Exclusive one_thread(handle.busy);
  if (handle.ledger_is_left) drop_ledger(handle);
  auto outcome = call();
  handle.raised->rethrow();
  return outcome;
}

// Calls `call(learner)` without the interpreter lock, for the one thread that may use the learner.
template <class Call>
auto use(LearnerHandle& handle, Call&& call) {
  return use_exclusively(handle,
                         [&] { return without_lock([&] { return call(*handle.learner); }); });
}

// Calls `call(learner, deadline)`, which waits, without the interpreter lock.
template <class Call>
auto use_until(LearnerHandle& handle, double timeout_s, Call&& call) {
  return use_exclusively(handle, [&] {
    return wait(timeout_s, [&](Time deadline) { return call(*handle.learner, deadline); });
  });
}

}  // namespace ffdl::python
