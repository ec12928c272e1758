#pragma once

#include <memory>
#include <utility>

#include "ffdl/learner.h"
#include "ffdl/slot_ledger.h"
#include "raised.h"
#include "waiting.h"

namespace ffdl::python {

// What a Python Learner holds.
struct LearnerHandle {
  explicit LearnerHandle(std::shared_ptr<Learner> attached) : learner(std::move(attached)) {}
  ~LearnerHandle() {
    pybind11::gil_scoped_release others_may_run;
    ledger.reset();
    learner.reset();
  }
  LearnerHandle(const LearnerHandle&) = delete;
  LearnerHandle& operator=(const LearnerHandle&) = delete;

  pybind11::object pushed;           // the gradient between start_push() and finish_push()
  pybind11::object pulled;           // where a DeviceLearner's start_pull() copies to
  std::shared_ptr<Learner> learner;  // its owner, or with the DeviceLearner that it is a part of
  // Its SlotLedger, if it has one, which calls `on_stable` wherever the learner publishes.
  std::unique_ptr<SlotLedger> ledger;
  pybind11::object on_stable;
  std::shared_ptr<Raised> raised = std::make_shared<Raised>();  // by that
  bool ledger_is_left = false;  // Python dropped it: the next call does
  bool busy = false;
};

// Gives back the partitions that it holds. The caller is the one thread that may use the learner.
inline void drop_ledger(LearnerHandle& handle) {
  without_lock([&] { handle.ledger.reset(); });
  handle.on_stable = pybind11::object();
  handle.ledger_is_left = false;
}

// What on_stable raised comes out of the call that it was raised in.
template <class Call>
auto use_exclusively(LearnerHandle& handle, Call&& call) {
  const Exclusive one_thread(handle.busy);
  if (handle.ledger_is_left) drop_ledger(handle);
  auto outcome = call();
  handle.raised->rethrow();
  return outcome;
}

// Calls `call(learner)` for the one thread that may use it, without the interpreter lock.
template <class Call>
auto use(LearnerHandle& handle, Call&& call) {
  return use_exclusively(handle,
                         [&] { return without_lock([&] { return call(*handle.learner); }); });
}

// The same for `call(learner, deadline)`, which waits.
template <class Call>
auto use_until(LearnerHandle& handle, double timeout_s, Call&& call) {
  return use_exclusively(handle, [&] {
    return wait(timeout_s, [&](Time deadline) { return call(*handle.learner, deadline); });
  });
}

// Pushes other than of float32 arrays, and pulls of rows.
void bind_sparse(pybind11::class_<LearnerHandle>& learner);

}  // namespace ffdl::python
