#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "base/element_pack.h"

namespace ffdl::cuda {

// Gives `stream` the kernel, whose arguments are of just these types. Says what became of that
// call: where <<<>>> is asked afterwards (cudaGetLastError), an error that the program has left
// there comes out, too, such as a cudaStreamQuery() that was not done.
template <class... Arguments>
cudaError_t launch(void (*kernel)(Arguments...), const base::LaunchShape& shape,
                   cudaStream_t stream, Arguments... arguments) {
  void* places[] = {&arguments...};
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(shape.blocks),
                          dim3(shape.threads_per_block), places, std::size_t{0}, stream);
}

}  // namespace ffdl::cuda
