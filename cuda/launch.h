#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "base/element_pack.h"

namespace ffdl::cuda {

// Launches the kernel on `stream`. Its arguments must have exactly these types. Returns the result
// of this call only. After <<<>>>, cudaGetLastError would also report an error that the program
// left there, such as a cudaStreamQuery() that was not done.
template <class... Arguments>
cudaError_t launch(void (*kernel)(Arguments...), const base::LaunchShape& shape,
                   cudaStream_t stream, Arguments... arguments) {
  void* places[] = {&arguments...};
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(shape.blocks),
                          dim3(shape.threads_per_block), places, std::size_t{0}, stream);
}

}  // namespace ffdl::cuda
