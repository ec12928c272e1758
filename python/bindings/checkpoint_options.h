#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "ffdl/checkpoint.h"
#include "raised.h"

namespace ffdl::python {

// What a Python CheckpointOptions holds: the functions are Python's, and `options` has none.
struct CheckpointOptionsHandle {
  CheckpointOptions options;
  pybind11::object metric = pybind11::none();
  pybind11::object note = pybind11::none();
};

// The functions of a CheckpointOptions while ffdl may call them. The interpreter lock is held when
// it goes; `raised` outlives it.
struct CheckpointFunctions {
  // Options that call these functions; what they raise goes to `raised`. This must outlive their
  // use.
  CheckpointOptions use(const CheckpointOptionsHandle& given, Raised& raised);

  pybind11::object metric;
  pybind11::object note;
};

}  // namespace ffdl::python
