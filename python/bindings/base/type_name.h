#pragma once

#include <pybind11/pybind11.h>

#include <string>

namespace ffdl::python {

// Returns the name of the type of a wrong argument, for messages: its value may be a secret.
inline std::string type_name(pybind11::handle given) { return Py_TYPE(given.ptr())->tp_name; }

}  // namespace ffdl::python
