#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "ffdl/types.h"

// What users give as arrays, as Buffers: no copy, no conversion.
namespace ffdl::python {

// Buffers, and the objects whose memory they are. The interpreter lock is held when it goes.
struct Elements {
  std::vector<Buffer> buffers;
  std::vector<pybind11::object> owners;
};

// `given`: a NumPy array, a tensor of the CPU that speaks DLPack, or anything with the buffer
// protocol; a list or tuple of these; None for nothing. What cannot be taken as it lies is
// InvalidArgument, with `name` in the message.
Elements elements_to_read(const pybind11::object& given, const char* name);
Elements elements_to_write(const pybind11::object& given, const char* name);

}  // namespace ffdl::python
