#include "bindings/base/signals.h"

#include <unistd.h>

namespace py = pybind11;

namespace ffdl::python {

bool on_main_thread() { return gettid() == getpid(); }

const void* this_thread() {
  static thread_local const char here = 0;
  return &here;
}

Status look_for_signals() {
  if (!on_main_thread()) return {};
  const py::gil_scoped_acquire interpreter;
  if (PyErr_CheckSignals() == 0) return {};
  return {StatusCode::kCancelled,
          "wait for the others: the handler of a signal raised an exception"};
}

}  // namespace ffdl::python
