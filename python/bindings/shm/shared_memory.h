#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "ffdl/comm/shared_memory.h"

namespace ffdl::python {

// Returns the memory of a SharedMemory, or of an array over a whole one. Errors: InvalidArgument
// for anything else.
std::shared_ptr<SharedMemory> memory_behind(const pybind11::object& given);

}  // namespace ffdl::python
