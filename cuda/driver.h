#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "base/errors.h"
#include "cuda/failure.h"

namespace ffdl::cuda {

// Finds a function of the driver that exists in CUDA 11.2 or before. The driver is not linked: the
// runtime, which has loaded it, returns the addresses of its functions.
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
