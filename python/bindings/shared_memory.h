#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "ffdl/shared_memory.h"

namespace ffdl::python {

// The memory that a SharedMemory, or an array over all of one, is. Anything else is
// InvalidArgument.
std::shared_ptr<SharedMemory> memory_behind(const pybind11::object& given);

}  // namespace ffdl::python
