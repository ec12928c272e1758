#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "base/errors.h"
#include "cuda/failure.h"

namespace ffdl::cuda {

// A function of the driver, of CUDA 11.2 or before. Nothing links the driver: the runtime, which
// has loaded it, tells where its functions are.
template <class Function>
Status find_in_driver(const char* name, Function& function, std::string_view doing) {
  constexpr unsigned int kVersion = 11020;
  void* found = nullptr;
  auto outcome = cudaDriverEntryPointSymbolNotFound;
  FFDL_RETURN_IF_ERROR(
      status_of(cudaGetDriverEntryPointByVersion(name, &found, kVersion, 0, &outcome), doing));
  if (outcome != cudaDriverEntryPointSuccess || found == nullptr) {
    return base::make_error(StatusCode::kUnimplemented,
                            "{}: the driver has no '{}'; install a newer driver", doing, name);
  }
  function = reinterpret_cast<Function>(found);
  return {};
}

}  // namespace ffdl::cuda
