#include "status.h"

#include <pybind11/pybind11.h>

namespace py = pybind11;

namespace ffdl::python {

void raise(const Status& status) {
  const std::string name(to_string(status.code()));
  const py::object type = py::module_::import("ffdl.errors").attr(name.c_str());
  PyErr_SetObject(type.ptr(), py::str(std::string(status.message())).ptr());
  throw py::error_already_set();
}

void raise_invalid_argument(std::string message) {
  raise(Status(StatusCode::kInvalidArgument, std::move(message)));
}

}  // namespace ffdl::python
