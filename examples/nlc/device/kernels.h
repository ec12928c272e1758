#pragma once

#include <cuda_runtime_api.h>

#include "nlc/device/row_threads.h"

namespace nlc {

// Each gives its kernel to `stream`, and tells what the launch came to.
cudaError_t launch(const SumRows& sum, cudaStream_t stream);
cudaError_t launch(const TakeLoss& take, cudaStream_t stream);
cudaError_t launch(const SpreadRows& spread, cudaStream_t stream);

}  // namespace nlc
