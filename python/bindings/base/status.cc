#include "bindings/base/status.h"

#include <pybind11/pybind11.h>

namespace py = pybind11;

namespace ffdl::python {

void raise(const Status& status) {
  const std::string name(to_string(status.code()));
  const py::object type = py::module_::import("ffdl.errors").attr(name.c_str());
  // A message may quote bytes of a file that are not UTF-8.
  const auto message = status.message();
  const auto text = py::reinterpret_steal<py::object>(PyUnicode_DecodeUTF8(
      message.data(), static_cast<Py_ssize_t>(message.size()), "backslashreplace"));
  if (!text) throw py::error_already_set();
  PyErr_SetObject(type.ptr(), text.ptr());
  throw py::error_already_set();
}

void raise_job_done(const Status& status) {
  const py::object type = py::module_::import("ffdl.errors").attr("JobDone");
  PyErr_SetObject(type.ptr(), py::str(std::string(status.message())).ptr());
  throw py::error_already_set();
}

void raise_invalid_argument(std::string message) {
  raise(Status(StatusCode::kInvalidArgument, std::move(message)));
}

}  // namespace ffdl::python
