#include "bindings/base/arrays.h"

#include <pybind11/stl.h>

#include <string>
#include <utility>

#include "bindings/base/foreign_array.h"

namespace py = pybind11;

namespace ffdl::python {
namespace {

// The array that a call takes; `wanted` names it in messages.
struct Wanted {
  std::string dtype;
  std::string size = "the right size";
  bool writes = false;
  Memory memory = Memory::kHost;
};

[[noreturn]] void refuse(const char* what, const std::string& observed, const Wanted& wanted) {
  refuse_array(what, observed + "; give a C-contiguous " + wanted.dtype + " array of " +
                         wanted.size + ", e.g. by numpy.ascontiguousarray(x, numpy." +
                         wanted.dtype + ")");
}

// Checks an array: `is_right(array)` returns true for the type that is wanted.
template <class Right>
ForeignArray checked(const py::object& object, const char* what, const Wanted& wanted,
                     Right&& is_right) {
  if (!is_array(object)) {
    refuse(what, a_type(object), wanted);
  }
  ForeignArray array =
      wanted.memory == Memory::kAny ? foreign_array(object, what) : host_array(object, what);
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
  return {{static_cast<T*>(array.data), array.count}, std::move(array.owner), array.device};
}

template <class T>
Values<T> floats(const py::object& object, uint64_t count, const char* what, bool writes,
                 Memory memory) {
  const Wanted wanted{"float32", std::to_string(count) + " elements", writes, memory};
  ForeignArray array = checked_floats(object, what, wanted);
  expect_count(array, count, what, wanted);
  return values_of<T>(std::move(array));
}

template <class T>
Matrix<T> matrix(const py::object& object, uint64_t rows, const char* what, bool writes,
                 Memory memory) {
  const Wanted wanted{"float32", std::to_string(rows) + " rows, one per row number", writes,
                      memory};
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
  return floats<const float>(object, count, what, false, Memory::kHost);
}

Values<const float> input_any_size(const py::object& object, const char* what, Memory memory) {
  return values_of<const float>(
      checked_floats(object, what, {.dtype = "float32", .memory = memory}));
}

Values<float> output(const py::object& object, uint64_t count, const char* what, Memory memory) {
  return floats<float>(object, count, what, true, memory);
}

Matrix<const float> input_matrix(const py::object& object, uint64_t rows, const char* what,
                                 Memory memory) {
  return matrix<const float>(object, rows, what, false, memory);
}

Matrix<float> output_matrix(const py::object& object, uint64_t rows, const char* what,
                            Memory memory) {
  return matrix<float>(object, rows, what, true, memory);
}

Values<const uint64_t> row_numbers(const py::object& object) {
  return values_of<const uint64_t>(checked(object, "rows", {.dtype = "int64"}, has_row_numbers));
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

DenseArray dense_gradient(const py::object& object, uint64_t count) {
  const Wanted wanted{
      .dtype = "float32", .size = std::to_string(count) + " elements", .memory = Memory::kAny};
  const auto type_of = [](const ForeignArray& array) {
    const bool has_bits = array.kind == 'u' && array.item_bytes == 2;
    return has_bits ? std::optional(DType::kBFloat16) : array.dtype();
  };
  ForeignArray array = checked(object, "gradient", wanted, [&](const ForeignArray& given) {
    const std::optional<DType> type = type_of(given);
    return type == DType::kFloat32 || type == DType::kBFloat16 || type == DType::kFloat16;
  });
  expect_count(array, count, "gradient", wanted);
  return {array.data, array.count, *type_of(array), std::move(array.owner), array.device};
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
