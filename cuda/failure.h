#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "ffdl/status.h"

namespace ffdl::cuda {

// Returns OK for cudaSuccess; otherwise base::device_error() with all facts that can be found out.
Status status_of(cudaError_t error, std::string_view doing);

// Returns the number of multiprocessors of this thread's GPU.
Result<uint32_t> multiprocessor_count(std::string_view doing);

}  // namespace ffdl::cuda
