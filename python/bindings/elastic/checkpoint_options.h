#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "bindings/base/raised.h"
#include "ffdl/checkpoint.h"

namespace ffdl::python {

// The contents of a Python CheckpointOptions. The functions are kept as Python objects; those of
// `options` are empty.
struct CheckpointOptionsHandle {
  CheckpointOptions options;
  pybind11::object metric = pybind11::none();
  pybind11::object note = pybind11::none();
};

// The functions of a CheckpointOptions for as long as ffdl may call them. The interpreter lock is
// held at destruction; `raised` outlives this object.
struct CheckpointFunctions {
  // Returns options that call these functions and store their exceptions in `raised`. This object
  // must outlive the use of the options.
  CheckpointOptions use(const CheckpointOptionsHandle& given, Raised& raised);

  pybind11::object metric;
  pybind11::object note;
};

}  // namespace ffdl::python
