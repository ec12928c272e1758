#include "arrays.h"

#include <string>

#include "status.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

py::array checked(const py::object& object, uint64_t count, const char* what) {
  std::string observed;
  if (!py::isinstance<py::array>(object)) {
    observed = "a " + py::str(py::type::of(object).attr("__name__")).cast<std::string>();
  } else {
    const auto array = py::reinterpret_borrow<py::array>(object);
    if (!py::dtype::of<float>().equal(array.dtype())) {
      observed = "elements of " + py::str(array.dtype()).cast<std::string>();
    } else if ((array.flags() & py::array::c_style) == 0) {
      observed = "not C-contiguous";
    } else if (static_cast<uint64_t>(array.size()) != count) {
      observed = std::to_string(array.size()) + " elements";
    } else {
      return array;
    }
  }
  raise_invalid_argument("take array '" + std::string(what) + "': " + observed +
                         "; give a C-contiguous float32 array of " + std::to_string(count) +
                         " elements, e.g. by numpy.ascontiguousarray(x, numpy.float32)");
}

py::array array_over(const float* data, size_t count, const py::object& owner) {
  return py::array(py::dtype::of<float>(), {count}, {sizeof(float)}, data, owner);
}

}  // namespace

std::span<const float> input(const py::object& object, uint64_t count, const char* what) {
  const py::array array = checked(object, count, what);
  return {static_cast<const float*>(array.data()), count};
}

std::span<float> output(const py::object& object, uint64_t count, const char* what) {
  py::array array = checked(object, count, what);
  if (!array.writeable()) {
    raise_invalid_argument("take array '" + std::string(what) +
                           "': it is read-only; give one that can be written");
  }
  return {static_cast<float*>(array.mutable_data()), count};
}

py::array view(std::span<float> memory, const py::object& owner) {
  return array_over(memory.data(), memory.size(), owner);
}

py::array read_only_view(std::span<const float> memory, const py::object& owner) {
  py::array array = array_over(memory.data(), memory.size(), owner);
  array.attr("setflags")(py::arg("write") = false);
  return array;
}

}  // namespace ffdl::python
