#pragma once

#include <cuda_runtime_api.h>

#include "nlc/device/row_threads.h"

namespace nlc {

// Each function launches its kernel on `stream` and returns the result of the launch.
cudaError_t launch(const SumRows& sum, cudaStream_t stream);
cudaError_t launch(const TakeLoss& take, cudaStream_t stream);
cudaError_t launch(const SpreadRows& spread, cudaStream_t stream);

}  // namespace nlc
