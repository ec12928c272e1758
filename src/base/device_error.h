#pragma once

#include <string>
#include <string_view>

#include "ffdl/status.h"

namespace ffdl::base {

// A failed call of the CUDA runtime, and the facts found out about it.
struct DeviceFailure {
  int error = 0;                 // a cudaError_t
  std::string_view name{};       // "cudaErrorNoDevice"
  std::string_view text{};       // CUDA's message
  std::string driver_missing{};  // the loader's message about libcuda.so.1; empty if it was loaded
  int driver_version = 0;        // see DeviceFacts
  int runtime_version = 0;
};

// Returns the error for the caller. Pure. kUnimplemented: this machine cannot do it (no driver, one
// that is too old, no GPU, no kernel for its kind). kExhausted: the GPU's memory is full.
// kUnavailable: other processes hold the GPU. Otherwise kInternal.
Status device_error(std::string_view doing, const DeviceFailure& failure);

}  // namespace ffdl::base
