#pragma once

#include <pybind11/pybind11.h>

namespace ffdl::python {

// Makes the TypeErrors that pybind11 raises for wrong arguments name the types of the arguments,
// not their values. A value may be a secret or fill a screen. Covers every function, method and
// property that the module has at the time of the call.
void name_types_in_errors(pybind11::module_& module);

}  // namespace ffdl::python
