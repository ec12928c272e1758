#pragma once

#include <string>
#include <string_view>

#include "ffdl/status.h"

namespace ffdl::base {

// A call of the CUDA runtime that failed, and what was found out about it.
struct DeviceFailure {
  int error = 0;                 // a cudaError_t
  std::string_view name{};       // "cudaErrorNoDevice"
  std::string_view text{};       // what CUDA says about it
  std::string driver_missing{};  // what the loader said of libcuda.so.1; empty where it was loaded
  int driver_version = 0;        // as DeviceFacts
  int runtime_version = 0;
};

// What the caller is told. Pure. kUnimplemented: this machine cannot do it (no driver, one that is
// too old, no GPU, no kernel for its kind); kExhausted: the GPU's memory is full; kUnavailable:
// others have the GPU; else kInternal.
Status device_error(std::string_view doing, const DeviceFailure& failure);

}  // namespace ffdl::base
