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

// A one-dimensional array over memory that lives as long as `owner`.
pybind11::array view(std::span<float> memory, const pybind11::object& owner);
pybind11::array read_only_view(std::span<const float> memory, const pybind11::object& owner);

}  // namespace ffdl::python
