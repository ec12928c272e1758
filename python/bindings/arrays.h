#pragma once

#include <pybind11/numpy.h>

#include <cstdint>
#include <span>
#include <vector>

#include "ffdl/parameter_server.h"

// Arrays of one type to spans and back, without a copy in either direction.
namespace ffdl::python {

// Elements, and what keeps them where they are. The interpreter lock is held when it goes.
template <class T>
struct Values {
  std::span<T> span;
  pybind11::object owner{};
};

// The memory of a C-contiguous float32 array of `count` elements, in any shape: of NumPy, a tensor
// that speaks DLPack, or anything with the buffer protocol. Anything else is InvalidArgument, with
// `what` in the message: a hidden conversion would be a hidden copy.
Values<const float> input(const pybind11::object& array, uint64_t count, const char* what);
// The same of an array that will be written.
Values<float> output(const pybind11::object& array, uint64_t count, const char* what);

// The same of any size.
Values<const float> input_any_size(const pybind11::object& array, const char* what);

// A C-contiguous float32 array of `rows` rows.
template <class T>
struct Matrix {
  Values<T> values;
  uint64_t row_size = 0;
};
Matrix<const float> input_matrix(const pybind11::object& array, uint64_t rows, const char* what);
// The same of an array that will be written.
Matrix<float> output_matrix(const pybind11::object& array, uint64_t rows, const char* what);

// A C-contiguous array of int64 or uint64. A negative number becomes a row that no table has.
Values<const uint64_t> row_numbers(const pybind11::object& array);

// Numbers of samples: an array of int64 or uint64 where it lies, anything else as a sequence of
// int.
class Numbers {
 public:
  explicit Numbers(const pybind11::object& given);
  std::span<const uint64_t> span() const { return copied_.empty() ? values_.span : copied_; }

 private:
  Values<const uint64_t> values_{};
  std::vector<uint64_t> copied_;
};

// The bits of a C-contiguous array of 16-bit elements: of that type, or bfloat16's as uint16.
Values<const uint16_t> input_halves(const pybind11::object& array, GradientType type,
                                    uint64_t count);

// A one-dimensional array over memory that lives as long as `owner`.
pybind11::array view(std::span<float> memory, const pybind11::object& owner);
pybind11::array read_only_view(std::span<const float> memory, const pybind11::object& owner);

}  // namespace ffdl::python
