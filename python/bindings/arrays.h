#pragma once

#include <pybind11/numpy.h>

#include <cstdint>
#include <span>

// NumPy arrays to spans and back, without a copy in either direction.
namespace ffdl::python {

// The memory of a C-contiguous float32 array of `count` elements, in any shape. Anything else is
// InvalidArgument, with `what` in the message: a hidden conversion would be a hidden copy.
std::span<const float> input(const pybind11::object& array, uint64_t count, const char* what);
// The same of an array that will be written.
std::span<float> output(const pybind11::object& array, uint64_t count, const char* what);

// The same of any size.
std::span<const float> input_any_size(const pybind11::object& array, const char* what);

// A C-contiguous float32 array of `rows` rows.
struct Matrix {
  std::span<const float> values;
  uint64_t row_size = 0;
};
Matrix input_matrix(const pybind11::object& array, uint64_t rows, const char* what);

// A C-contiguous array of int64 or uint64. A negative number becomes a row that no table has.
std::span<const uint64_t> row_numbers(const pybind11::object& array);

// The bits of a C-contiguous array of 16-bit elements of this dtype.
std::span<const uint16_t> input_halves(const pybind11::object& array, const char* dtype,
                                       uint64_t count);

// A one-dimensional array over memory that lives as long as `owner`.
pybind11::array view(std::span<float> memory, const pybind11::object& owner);
pybind11::array read_only_view(std::span<const float> memory, const pybind11::object& owner);

}  // namespace ffdl::python
