#include "arrays.h"

#include <string>

#include "status.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

// Empty when `object` is a C-contiguous array of that type, else what it is instead.
std::string mismatch(const py::object& object, const char* dtype) {
  if (!py::isinstance<py::array>(object)) {
    return "a " + py::str(py::type::of(object).attr("__name__")).cast<std::string>();
  }
  const auto array = py::reinterpret_borrow<py::array>(object);
  if (!py::dtype(dtype).equal(array.dtype())) {
    return "elements of " + py::str(array.dtype()).cast<std::string>();
  }
  return (array.flags() & py::array::c_style) == 0 ? "not C-contiguous" : "";
}

[[noreturn]] void refuse(const char* what, const std::string& observed, const std::string& wanted,
                         const char* dtype) {
  raise_invalid_argument("take array '" + std::string(what) + "': " + observed +
                         "; give a C-contiguous " + dtype + " array of " + wanted +
                         ", e.g. by numpy.ascontiguousarray(x, numpy." + dtype + ")");
}

py::array checked(const py::object& object, const char* what, const char* dtype = "float32") {
  const std::string observed = mismatch(object, dtype);
  if (!observed.empty()) refuse(what, observed, "the right size", dtype);
  return py::reinterpret_borrow<py::array>(object);
}

py::array checked(const py::object& object, uint64_t count, const char* what,
                  const char* dtype = "float32") {
  const std::string wanted = std::to_string(count) + " elements";
  const std::string observed = mismatch(object, dtype);
  if (!observed.empty()) refuse(what, observed, wanted, dtype);
  auto array = py::reinterpret_borrow<py::array>(object);
  if (static_cast<uint64_t>(array.size()) != count) {
    refuse(what, std::to_string(array.size()) + " elements", wanted, dtype);
  }
  return array;
}

py::array array_over(const float* data, size_t count, const py::object& owner) {
  return py::array(py::dtype::of<float>(), {count}, {sizeof(float)}, data, owner);
}

}  // namespace

std::span<const float> input(const py::object& object, uint64_t count, const char* what) {
  const py::array array = checked(object, count, what);
  return {static_cast<const float*>(array.data()), count};
}

std::span<const float> input_any_size(const py::object& object, const char* what) {
  const py::array array = checked(object, what);
  return {static_cast<const float*>(array.data()), static_cast<size_t>(array.size())};
}

Matrix input_matrix(const py::object& object, uint64_t rows, const char* what) {
  const py::array array = checked(object, what);
  if (array.ndim() != 2 || static_cast<uint64_t>(array.shape(0)) != rows) {
    refuse(what, py::str(object.attr("shape")).cast<std::string>() + " elements",
           std::to_string(rows) + " rows, one per row number", "float32");
  }
  return {{static_cast<const float*>(array.data()), static_cast<size_t>(array.size())},
          static_cast<uint64_t>(array.shape(1))};
}

std::span<const uint64_t> row_numbers(const py::object& object) {
  const bool is_signed = mismatch(object, "int64").empty();
  const py::array array = checked(object, "rows", is_signed ? "int64" : "uint64");
  return {static_cast<const uint64_t*>(array.data()), static_cast<size_t>(array.size())};
}

std::span<const uint16_t> input_halves(const py::object& object, const char* dtype,
                                       uint64_t count) {
  const py::array array = checked(object, count, "gradient", dtype);
  return {static_cast<const uint16_t*>(array.data()), count};
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
