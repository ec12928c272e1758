#include "arrays.h"

#include <pybind11/stl.h>

#include <string>
#include <utility>

#include "foreign_array.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

// What a call takes: `wanted` names it in messages.
struct Wanted {
  std::string dtype;
  std::string size = "the right size";
  bool writes = false;
};

[[noreturn]] void refuse(const char* what, const std::string& observed, const Wanted& wanted) {
  refuse_array(what, observed + "; give a C-contiguous " + wanted.dtype + " array of " +
                         wanted.size + ", e.g. by numpy.ascontiguousarray(x, numpy." +
                         wanted.dtype + ")");
}

// `is_right(array)`: of the type that is wanted.
template <class Right>
ForeignArray checked(const py::object& object, const char* what, const Wanted& wanted,
                     Right&& is_right) {
  if (!is_array(object)) {
    refuse(what, a_type(object), wanted);
  }
  ForeignArray array = host_array(object, what);
  if (!is_right(array)) refuse(what, array.elements(), wanted);
  if (!array.contiguous) refuse(what, "not C-contiguous", wanted);
  if (wanted.writes && array.read_only) refuse_read_only(what);
  return array;
}

ForeignArray checked_floats(const py::object& object, const char* what, const Wanted& wanted) {
  return checked(object, what, wanted,
                 [](const ForeignArray& array) { return array.dtype() == DType::kFloat32; });
}

void expect_count(const ForeignArray& array, uint64_t count, const char* what,
                  const Wanted& wanted) {
  if (array.count != count) refuse(what, std::to_string(array.count) + " elements", wanted);
}

template <class T>
Values<T> values_of(ForeignArray array) {
  return {{static_cast<T*>(array.data), array.count}, std::move(array.owner)};
}

template <class T>
Values<T> floats(const py::object& object, uint64_t count, const char* what, bool writes) {
  const Wanted wanted{"float32", std::to_string(count) + " elements", writes};
  ForeignArray array = checked_floats(object, what, wanted);
  expect_count(array, count, what, wanted);
  return values_of<T>(std::move(array));
}

template <class T>
Matrix<T> matrix(const py::object& object, uint64_t rows, const char* what, bool writes) {
  const Wanted wanted{"float32", std::to_string(rows) + " rows, one per row number", writes};
  ForeignArray array = checked_floats(object, what, wanted);
  const auto [length, row_size] = array.lengths;
  if (array.dimensions != 2) {
    refuse(what, std::to_string(array.dimensions) + " dimensions", wanted);
  }
  if (length != rows) refuse(what, std::to_string(length) + " rows", wanted);
  return {values_of<T>(std::move(array)), row_size};
}

bool has_row_numbers(const ForeignArray& array) {
  return array.item_bytes == 8 && (array.kind == 'i' || array.kind == 'u');
}

py::array array_over(const float* data, size_t count, const py::object& owner) {
  return py::array(py::dtype::of<float>(), {count}, {sizeof(float)}, data, owner);
}

}  // namespace

Values<const float> input(const py::object& object, uint64_t count, const char* what) {
  return floats<const float>(object, count, what, false);
}

Values<const float> input_any_size(const py::object& object, const char* what) {
  return values_of<const float>(checked_floats(object, what, {"float32"}));
}

Values<float> output(const py::object& object, uint64_t count, const char* what) {
  return floats<float>(object, count, what, true);
}

Matrix<const float> input_matrix(const py::object& object, uint64_t rows, const char* what) {
  return matrix<const float>(object, rows, what, false);
}

Matrix<float> output_matrix(const py::object& object, uint64_t rows, const char* what) {
  return matrix<float>(object, rows, what, true);
}

Values<const uint64_t> row_numbers(const py::object& object) {
  return values_of<const uint64_t>(checked(object, "rows", {"int64"}, has_row_numbers));
}

Numbers::Numbers(const py::object& given) {
  const auto refuse_it = [](const std::string& what) {
    refuse_array("indices", what + "; give a sequence of int, at least 0, or an array of int64");
  };
  if (is_array(given)) {
    ForeignArray array = foreign_array(given, "indices");
    if (has_row_numbers(array) && array.contiguous && !array.device) {
      values_ = values_of<const uint64_t>(std::move(array));
      return;
    }
    if (array.is_real()) refuse_it(array.elements());
  }
  try {
    copied_ = given.cast<std::vector<uint64_t>>();
  } catch (const py::cast_error&) {
    refuse_it(a_type(given));
  }
}

Values<const uint16_t> input_halves(const py::object& object, GradientType type, uint64_t count) {
  const bool is_float16 = type == GradientType::kFloat16;
  const Wanted wanted{is_float16 ? "float16" : "uint16", std::to_string(count) + " elements"};
  ForeignArray array = checked(object, "gradient", wanted, [&](const ForeignArray& given) {
    if (is_float16) return given.dtype() == DType::kFloat16;
    return given.dtype() == DType::kBFloat16 || (given.kind == 'u' && given.item_bytes == 2);
  });
  expect_count(array, count, "gradient", wanted);
  return values_of<const uint16_t>(std::move(array));
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
