#pragma once

#include <memory>
#include <utility>

#include "ffdl/learner.h"
#include "waiting.h"

namespace ffdl::python {

// What a Python Learner holds.
struct LearnerHandle {
  explicit LearnerHandle(std::unique_ptr<Learner> attached) : learner(std::move(attached)) {}
  ~LearnerHandle() {
    pybind11::gil_scoped_release others_may_run;
    learner.reset();
  }
  LearnerHandle(const LearnerHandle&) = delete;
  LearnerHandle& operator=(const LearnerHandle&) = delete;

  pybind11::object pushed;  // the gradient between start_push() and finish_push()
  std::unique_ptr<Learner> learner;
  bool busy = false;
};

// Calls `call(learner)` for the one thread that may use it, without the interpreter lock.
template <class Call>
auto use(LearnerHandle& handle, Call&& call) {
  const Exclusive one_thread(handle.busy);
  return without_lock([&] { return call(*handle.learner); });
}

// The same for `call(learner, deadline)`, which waits.
template <class Call>
auto use_until(LearnerHandle& handle, double timeout_s, Call&& call) {
  const Exclusive one_thread(handle.busy);
  return wait(timeout_s, [&](Time deadline) { return call(*handle.learner, deadline); });
}

// Pushes other than of float32 arrays, and pulls of rows.
void bind_sparse(pybind11::class_<LearnerHandle>& learner);

}  // namespace ffdl::python
