#pragma once

#include <pybind11/numpy.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bindings/base/buffers.h"
#include "ffdl/types.h"

// Conversion between arrays of one type and spans, without a copy in either direction.
namespace ffdl::python {

// Elements, and the object that keeps their memory. The interpreter lock is held at destruction.
template <class T>
struct Values {
  std::span<T> span;
  pybind11::object owner{};
  std::optional<int> device{};  // the GPU that holds them, as in ForeignArray
};

// Returns the memory of a C-contiguous float32 array of `count` elements, in any shape. Takes NumPy
// arrays, tensors that support DLPack, and objects with the buffer protocol. Errors:
// InvalidArgument for anything else, with `what` in the message. Nothing is converted: a hidden
// conversion would be a hidden copy. A caller that passes Memory::kAny checks Values::device.
Values<const float> input(const pybind11::object& array, uint64_t count, const char* what);
// Returns the memory of a writable C-contiguous float32 array of `count` elements.
Values<float> output(const pybind11::object& array, uint64_t count, const char* what,
                     Memory memory = Memory::kHost);

// Returns the memory of a C-contiguous float32 array of any size.
Values<const float> input_any_size(const pybind11::object& array, const char* what,
                                   Memory memory = Memory::kHost);

// A C-contiguous float32 array of `rows` rows.
template <class T>
struct Matrix {
  Values<T> values;
  uint64_t row_size = 0;
};
Matrix<const float> input_matrix(const pybind11::object& array, uint64_t rows, const char* what,
                                 Memory memory = Memory::kHost);
// Returns a writable C-contiguous float32 array of `rows` rows.
Matrix<float> output_matrix(const pybind11::object& array, uint64_t rows, const char* what,
                            Memory memory = Memory::kHost);

// Returns the elements of a C-contiguous array of int64 or uint64. A negative number becomes a row
// that no table has.
Values<const uint64_t> row_numbers(const pybind11::object& array);

// Sample numbers. An array of int64 or uint64 is used in place; anything else is read as a sequence
// of int.
class Numbers {
 public:
  explicit Numbers(const pybind11::object& given);
  std::span<const uint64_t> span() const { return copied_.empty() ? values_.span : copied_; }

 private:
  Values<const uint64_t> values_{};
  std::vector<uint64_t> copied_;
};

// The elements of a gradient, in the memory of the host or of a GPU.
struct DenseArray {
  const void* data;
  uint64_t count;
  DType dtype;
  pybind11::object owner{};
  std::optional<int> device{};
};
// Returns the elements of a C-contiguous array of `count` float32, bfloat16 or float16; uint16 are
// the bits of bfloat16.
DenseArray dense_gradient(const pybind11::object& array, uint64_t count);

// Returns a one-dimensional array over memory that is valid as long as `owner` lives.
pybind11::array view(std::span<float> memory, const pybind11::object& owner);
pybind11::array read_only_view(std::span<const float> memory, const pybind11::object& owner);

}  // namespace ffdl::python
